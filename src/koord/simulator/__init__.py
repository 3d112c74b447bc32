# SPDX-License-Identifier: Apache-2.0
"""Replays and simulations: the same decisions as on a cluster, on recorded or modelled input.

`openb` replays traces, `nodes` runs simulated machines against an API server, `colocation` runs
days in columns, `live` is `koord up --colocation`, `quota_what_if` quotas.
"""
