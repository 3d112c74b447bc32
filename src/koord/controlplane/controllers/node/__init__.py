# SPDX-License-Identifier: Apache-2.0
"""Nodes that fall silent, their taints and evictions, and pods that nobody looks after.

``node_lifecycle`` and ``pod_gc`` decide, ``controllers`` is their shell. Begin with
``node_lifecycle``.
"""
