# SPDX-License-Identifier: Apache-2.0
"""The cluster's columns under deltas: `overcommit_cache` holds all of it, `node_pods` matches pods
with the metrics of the last report, `row_numbers` and `pod_columns` number rows. Begin with
`overcommit_cache`.
"""
