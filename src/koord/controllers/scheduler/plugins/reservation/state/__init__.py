# SPDX-License-Identifier: Apache-2.0
"""Who sits in which reservation and what is left: `reservation_info` one of them,
`reservation_cache` all of a table, `fit` whether a pod has room in one, `reservation_index`
found by what pods say, `shape_matches` those a shape may use, `columns` many rows at once. Begin
with `reservation_info`.
"""
