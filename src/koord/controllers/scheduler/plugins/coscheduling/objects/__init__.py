# SPDX-License-Identifier: Apache-2.0
"""What a gang is by a pod or PodGroup (`gang_declaration`), and the network as a tree
(`network_tree`). Pure. Begin with `gang_declaration`.
"""
