# SPDX-License-Identifier: Apache-2.0
"""Why a pod does not go to a node, or nowhere at all now."""

from __future__ import annotations

from typing import NamedTuple


class Rejection(NamedTuple):
    """One plugin's no.

    Attributes:
        plugin: who says it.
        reasons: texts as kubectl users know them, at least one.
        unresolvable: removing pods from the node would not help.
        error: not a verdict but a failure (a malformed annotation, an unknown value): the pod is
            tried again after its backoff, whatever happens in the cluster.
    """

    plugin: str
    reasons: tuple[str, ...]
    unresolvable: bool = False
    error: bool = False

    @property
    def text(self) -> str:
        """All reasons in one line."""
        return ", ".join(self.reasons)


class Wait(NamedTuple):
    """A Permit plugin's answer: hold the pod on its node until it is allowed or time is up."""

    plugin: str
    seconds: float
    reason: str = ""
