# SPDX-License-Identifier: Apache-2.0
"""LoadAwareScheduling: real load, and the load that is on its way, instead of requests alone.

`node_metric` and `estimator` read, `cache` keeps load by row in columns, `filtering` and `scoring`
answer from them. Begin with `cache.LoadCache`.
"""
