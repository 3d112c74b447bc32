# SPDX-License-Identifier: Apache-2.0
"""What an executor tells of its work: writes, plans, failures, and who wants what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor.arbiter import Composed, Owned

if TYPE_CHECKING:
    from koord.agent.executor.failing import Failure
    from koord.agent.executor.target import Target, Value


class Written(NamedTuple):
    """A value was written.

    Attributes:
        target: where.
        made: the value, whose it is and why.
        by_hand: the same value had been written before, and somebody else had changed it.
        given_back: nobody claims it any more.
    """

    target: Target
    made: Composed
    by_hand: bool
    given_back: bool


class Planned(NamedTuple):
    """A value that would be written, were this no dry run."""

    target: Target
    made: Composed
    given_back: bool


class Failed(NamedTuple):
    """A value that could not be written."""

    target: Target
    failure: Failure


class Gone(NamedTuple):
    """A value is not written: the cgroup went with its container, or is not there yet."""

    target: Target


class Line(NamedTuple):
    """One target for ``koord node status``: its value and every claim on it, one line each."""

    target: Target
    value: Value | None
    claims: tuple[str, ...]


Told = Written | Planned | Failed | Gone
Reporter = Callable[[Told], None]


def ignore(told: Told) -> None:
    """A reporter for those who do not care."""


def said(owned: Owned) -> str:
    """A claim as a person reads it."""
    claim = owned.claim
    return f"{owned.owner} ({owned.scope}): {claim.layer.name} {claim.value}: {claim.reason}"
