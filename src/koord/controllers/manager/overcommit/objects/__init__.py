# SPDX-License-Identifier: Apache-2.0
"""From objects to rows of columns: pods and metrics (`pod_terms`), a Node and its NodeMetric
(`node_report`, `node_columns`), strategies (`strategy_columns`). Begin with `node_columns`.
"""
