# SPDX-License-Identifier: Apache-2.0
"""What the node does: `collection_loop` runs `collectors` on their intervals, samples go to
`storage`, strategies and reports read windows through `reader`, `prometheus` exports. Begin with
`collector` (what a collector is and gets), then `collection_loop`.
"""
