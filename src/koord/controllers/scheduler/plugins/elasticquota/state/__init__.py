# SPDX-License-Identifier: Apache-2.0
"""`quota_trees` equal to the objects, `quota_index` who is found by name or namespace,
`quota_ledger` which pod is charged where, `cluster_total` what there is to share, `recount` the
charges counted anew. Begin with `quota_trees`.
"""
