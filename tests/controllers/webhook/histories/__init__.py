# SPDX-License-Identifier: Apache-2.0
"""Histories of admission: two replicas beside the embedded server, late, cut off, started again.

`replica` is one process of admission and how the API server reaches them, `connection` what goes
wrong on the way, `world` the whole, `steps` what tenants do, `checks` what holds at any time.
"""
