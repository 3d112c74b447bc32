# SPDX-License-Identifier: Apache-2.0
"""Texts that users read, as the original words them.

Rules: docs/reference/reservations.md#filter and docs/reference/reservations.md#messages.
"""

from __future__ import annotations

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.reservation.matched_reservation import PLUGIN

AFFINITY = "node(s) no reservations match reservation affinity"
NONE_MEETS = "node(s) no reservation(s) to meet the requirements"
NODE_NAME = "node(s) didn't match the nodeName specified by reservation"
POLICY_CONFLICT = "node(s) reservation allocate policy conflict"
UNSUPPORTED = "node(s) reservation pre allocation is unsupported with current attributes"
CLUSTER_MODE_OFF = "reservation requires cluster mode pre-allocation which is disabled"
NO_CANDIDATE = "node(s) no pod match reservation with pre allocation required"
NO_PODS = "node(s) no pod(s) to meet the pre-allocation requirements"
NOT_FOUND = "cannot find target reservation"
TERMINATING = "target reservation is terminating"


def unresolvable(text: str) -> Rejection:
    """Removing pods from the node would not help."""
    return Rejection(PLUGIN, (text,), unresolvable=True)


def refused(*texts: str) -> Rejection:
    """Other pods stand in the way."""
    return Rejection(PLUGIN, texts)


def failed(text: str) -> Rejection:
    """No verdict but a failure."""
    return Rejection(PLUGIN, (text,), error=True)


def by_node(names: list[str]) -> list[str]:
    """Why the node has too little, in the order of resource names."""
    return [f"Insufficient {name} by node" for name in sorted(set(names))]
