# SPDX-License-Identifier: Apache-2.0
"""The formulas, columns in and columns out: batch and mid of a node, batch by NUMA zone, sums of
pods, how far an offer may rise at once, when a change is worth a write. Begin with `batch`.
"""
