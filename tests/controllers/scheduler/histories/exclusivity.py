# SPDX-License-Identifier: Apache-2.0
"""Holds every choice of CPUs against the plain model of the picker, as it is made."""

from __future__ import annotations

from typing import Any

from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN as RESERVATION,
)
from tests.controllers.scheduler.histories.documents import CPU_FORMS, topology_rows
from tests.models.topology import Machine, Request, State, pick

NUMA = "NodeNUMAResource"
MACHINE = Machine.of(topology_rows())


class CpuWatcher:
    """An observer of the scheduling loop.

    Attributes:
        wrong: what was chosen otherwise than the model would.
        seen: choices that were looked at.
    """

    def __init__(self) -> None:
        self.plugin: Any = None
        self.wrong: list[str] = []
        self.seen = 0

    def observe(self, decision: Any, message: str) -> None:
        pod = decision.cycle.pod
        held = pod.allocations.get(NUMA)
        labels = pod.pod.metadata.labels
        seat = pod.allocations.get(RESERVATION)
        form = CPU_FORMS.get(labels.get("form", ""))
        if message or not held or not held.cpus or form is None or "gang" in labels:
            return
        if seat is not None and (seat.uid or seat.pre_allocated):
            return
        node = self.plugin.cache.state(decision.row)
        before = State(MACHINE)
        for uid, other in node.pods.items():
            if uid != pod.uid:
                before.add(uid, other.cpus, str(other.exclusive))
        _, bind, exclusive = form
        strategy = str(node.topology.strategy)
        ask = Request(len(held.cpus), bind, False, exclusive or "None", strategy)
        self.seen += 1
        wanted = pick(before, ask).cpus
        if set(held.cpus) != wanted:
            self.wrong.append(f"{pod.key}: CPUs {held.cpus}, the model has {sorted(wanted)}")
