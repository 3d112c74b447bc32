# SPDX-License-Identifier: Apache-2.0
"""What every plugin asks: which pods its options select, whether a pod fits a node, who goes first.
Begin with ``node_fit``.
"""
