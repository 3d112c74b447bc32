# SPDX-License-Identifier: Apache-2.0
"""Eviction: which pods may go, in which order, how much is enough, and whether they are gone."""
