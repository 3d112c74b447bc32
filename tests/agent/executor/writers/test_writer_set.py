# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from koord.agent.executor.target import OOM_SCORE_ADJ, TRAFFIC, Target
from koord.agent.executor.writers.target_writer import LateWriter, WriteRequest
from koord.agent.executor.writers.writer_set import WriterSet
from koord.base.errors import KoordError
from koord.kernels.cgroup import Outcome, Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.target import Value


class Noting:
    """A writer that notes what it is asked to write."""

    def __init__(self) -> None:
        self.wrote: list[Value] = []

    def takes(self, resource: str) -> bool:
        return resource == TRAFFIC

    def refusal(self, target: Target, value: Value) -> str:
        return ""

    def held(self, target: Target) -> Value:
        return self.wrote[-1] if self.wrote else ""

    def original(self, target: Target) -> Value:
        return ""

    def write(self, requests: Sequence[WriteRequest], now_seconds: float) -> list[Written]:
        self.wrote += [request.value for request in requests]
        return [Written(Outcome.WRITTEN, 0, "") for _ in requests]


def test_a_late_writer_is_made_once_and_when_it_is_first_needed() -> None:
    made: list[Noting] = []

    def make() -> Noting:
        made.append(Noting())
        return made[-1]

    writers = WriterSet([LateWriter(TRAFFIC, make)])
    writers.close_kept()
    with pytest.raises(KoordError):
        writers.writer_of(OOM_SCORE_ADJ)
    assert writers.write([], 0.0) == []
    assert made == [], "nobody has asked for it"
    target = Target(TRAFFIC, "")
    ((request, written),) = writers.write([WriteRequest(target, "plan")], 0.0)
    assert (request.value, written.outcome) == ("plan", Outcome.WRITTEN)
    assert writers.held(target) == "plan"
    assert writers.writer_of(TRAFFIC) is made[0]
    assert len(made) == 1


def test_what_a_node_may_never_need_is_not_imported_with_an_executor() -> None:
    code = (
        "import sys, koord.agent.executor.startup\n"
        "late = ('core_sched', 'oom_score', 'traffic')\n"
        "print([n for n in late if f'koord.agent.executor.writers.{n}' in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
