# SPDX-License-Identifier: Apache-2.0
"""One set of NUMA zones for all that a pod gets on a node, agreed on by several plugins."""
