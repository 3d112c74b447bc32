# SPDX-License-Identifier: Apache-2.0
"""The metric cache: a ring of fixed size a series (`series_rings`), all kinds within one bound of
memory (`metric_cache`). Begin with `metric_cache`.
"""
