# SPDX-License-Identifier: Apache-2.0
"""Putting a machine back after its agent has gone: ``koord node restore``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor import write_events
from koord.agent.executor.journal import Journal
from koord.agent.executor.startup import boot_id, restore
from koord.base.clock import SystemClock

if TYPE_CHECKING:
    from koord.agent.host.machine import Machine


class RestoredFile(NamedTuple):
    """One file that koordlet had written.

    Attributes:
        file: resource and directory.
        value: what it said before, and says again.
        outcome: ``to do``, ``done``, or what the kernel said.
        failed: whether it could not be put back.
    """

    file: str
    value: str
    outcome: str
    failed: bool = False


def restorable(machine: Machine) -> list[RestoredFile]:
    """What would be put back; nothing is written.

    Raises:
        KoordError: the journal cannot be read.
    """
    journal = Journal(machine.roots.state, boot_id(machine.roots))
    return [
        RestoredFile(str(target), str(journal.original(target)), "to do")
        for target in sorted(journal.targets())
    ]


def restore_machine(machine: Machine) -> list[RestoredFile]:
    """Puts everything back, in an order that the kernel takes.

    Raises:
        KoordError: the journal cannot be read.
    """
    expected = restorable(machine)
    problems: dict[str, str] = {}

    def note_failure(event: write_events.WriteEvent) -> None:
        if isinstance(event, write_events.WriteFailed):
            problems[str(event.target)] = event.failure.result.message

    failed = {str(failure.target) for failure in restore(machine, SystemClock(), note_failure)}
    return [
        each._replace(outcome=problems.get(each.file, "not put back"), failed=True)
        if each.file in failed
        else each._replace(outcome="done")
        for each in expected
    ]
