# SPDX-License-Identifier: Apache-2.0
"""Reservation: resources of a node held for pods that come later.

Rules: docs/reference/reservations.md.
"""
