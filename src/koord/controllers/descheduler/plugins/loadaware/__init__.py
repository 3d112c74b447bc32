# SPDX-License-Identifier: Apache-2.0
"""LowNodeLoad: pods from nodes whose measured use is high to nodes whose use is low.
``measured_nodes`` is what nodes use and may use, ``balance_phase`` moves pods between two groups of
nodes, ``anomaly`` counts how long a node has been high. Begin with ``low_node_load``.
"""
