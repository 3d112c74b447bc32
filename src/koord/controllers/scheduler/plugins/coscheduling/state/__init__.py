# SPDX-License-Identifier: Apache-2.0
"""All gangs and where each pod of them is (`gangs`, `gang_cache`), and the network as it is now
(`network_topology`). Begin with `gangs`.
"""
