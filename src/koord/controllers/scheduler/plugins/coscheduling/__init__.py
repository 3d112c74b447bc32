# SPDX-License-Identifier: Apache-2.0
"""Gangs: pods that are scheduled together or not at all; see docs/gangs.md."""
