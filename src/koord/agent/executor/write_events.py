# SPDX-License-Identifier: Apache-2.0
"""What an executor tells of its work: writes, plans, failures, and who wants what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor.composition.value_resolver import ComposedValue, OwnedClaim

if TYPE_CHECKING:
    from koord.agent.executor.target import Target, Value
    from koord.agent.executor.write_failures import WriteFailure


class ValueWritten(NamedTuple):
    """A value was written.

    Attributes:
        target: where.
        made: the value, whose it is and why.
        by_hand: the same value had been written before, and somebody else had changed it.
        given_back: nobody claims it any more.
    """

    target: Target
    made: ComposedValue
    by_hand: bool
    given_back: bool


class WritePlanned(NamedTuple):
    """A value that would be written, were this no dry run."""

    target: Target
    made: ComposedValue
    given_back: bool


class WriteFailed(NamedTuple):
    """A value that could not be written."""

    target: Target
    failure: WriteFailure


class CgroupGone(NamedTuple):
    """A value is not written: the cgroup went with its container, or is not there yet."""

    target: Target


class TargetClaims(NamedTuple):
    """One target for ``koord node status``: its value and every claim on it, one line each."""

    target: Target
    value: Value | None
    claims: tuple[str, ...]


WriteEvent = ValueWritten | WritePlanned | WriteFailed | CgroupGone
Reporter = Callable[[WriteEvent], None]


def ignore(event: WriteEvent) -> None:
    """A reporter for those who do not care."""


def claim_text(owned: OwnedClaim) -> str:
    """A claim as a person reads it."""
    claim = owned.claim
    return f"{owned.owner} ({owned.scope}): {claim.layer.name} {claim.value}: {claim.reason}"
