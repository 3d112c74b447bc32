# SPDX-License-Identifier: Apache-2.0
"""Replays and simulations: the same decisions as on a cluster, on recorded or modelled input."""
