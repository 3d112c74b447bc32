# SPDX-License-Identifier: Apache-2.0
"""What pods hold of every node: `cache` by row, `node_allocations` of one node, `columns` summed
for all rows. Changed in place by deltas; equal to a recount from the pods at any time. Begin
with `node_allocations.NodeAllocations`.
"""
