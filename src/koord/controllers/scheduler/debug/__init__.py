# SPDX-License-Identifier: Apache-2.0
"""For whoever looks into a running scheduler: `state_dump` has queue, cache and nodes as plain
data, `flags` what of every decision goes to the log while switched on. Both are served by
`scheduler.endpoints`. Begin with `state_dump`.
"""
