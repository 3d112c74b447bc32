# SPDX-License-Identifier: Apache-2.0
"""Why a pod does not go to a node, or nowhere at all now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_REASONS = 32
"""How many reasons a message has: a pod may ask for thousands of resources that no node offers."""


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
        """The reasons in one line."""
        return listed(self.reasons)


def listed(reasons: Sequence[str]) -> str:
    """The first reasons in one line, and how many more there are.

    Rule: docs/reference/scheduling.md#messages.
    """
    text, more = ", ".join(reasons[:MOST_REASONS]), len(reasons) - MOST_REASONS
    return f"{text} and {more} more" if more > 0 else text


def left_out(plugins: Sequence[str]) -> Rejection:
    """Of a node that PreFilter leaves out.

    Args:
        plugins: who left nodes out, by name.
    """
    names = " ".join(plugins)
    return Rejection("", (f"node(s) didn't satisfy plugin(s) [{names}]",), unresolvable=True)


def none_left(plugins: Sequence[str]) -> Rejection:
    """Of a pod for which PreFilter leaves no node over; see :func:`left_out`."""
    names = " ".join(plugins)
    several = f"node(s) didn't satisfy plugin(s) [{names}] simultaneously"
    text = several if len(plugins) != 1 else f"node(s) didn't satisfy plugin {names}"
    return Rejection("", (text,), unresolvable=True)


class Wait(NamedTuple):
    """A Permit plugin's answer: hold the pod on its node until it is allowed or time is up."""

    plugin: str
    seconds: float
    reason: str = ""
