# SPDX-License-Identifier: Apache-2.0
"""Any order of what happens to rows leaves what a model says that keeps the objects themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from koord.api import Node, NodeResourceTopology
from koord.controllers.manager.noderesource.plugins.plugin import CalculatedResources, DesiredNode
from koord.controllers.manager.noderesource.state.observed import ReconcileInputs
from koord.controllers.manager.noderesource.state.reconciled_nodes import ReconciledNodes, RowToken
from koord.controllers.manager.noderesource.writers.zone_patches import updated_zones
from tests.controllers.manager.noderesource.state.cases import (
    CASE,
    NOW,
    Case,
    cache_of,
    cases,
    change,
)

ROWS = 2
ROW = st.integers(0, ROWS - 1)


@dataclass
class PlainRow:
    """A row as the objects that it was reconciled from; moments are counted in steps.

    Attributes:
        node, topology, result: what it shows, and what plugins calculated; None while it is not
            reconciled.
        written_at: monotonic seconds of both.
        decided: what it is to offer since the last decision, None before the first.
        changed_step, decided_step: when that was last so.
    """

    node: Node | None = None
    topology: NodeResourceTopology | None = None
    result: CalculatedResources = field(default_factory=CalculatedResources)
    written_at: tuple[float, float] = (0.0, 0.0)
    decided: Case | None = None
    changed_step: int = 0
    decided_step: int = 0


class PlainToken(NamedTuple):
    """A token, and when it was taken."""

    row: int
    token: RowToken
    step: int


class Histories(RuleBasedStateMachine):
    """The verbs of ReconciledNodes, beside a model of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.real, self.rows = ReconciledNodes(), [PlainRow() for _ in range(ROWS)]
        self.tokens: list[PlainToken] = []
        self.step, self.now = 0, NOW

    def token(self, pick: int) -> PlainToken:
        self.step += 1
        return self.tokens[pick % len(self.tokens)]

    @rule(row=ROW)
    def observe(self, row: int) -> None:
        self.step += 1
        self.tokens.append(PlainToken(row, self.real.observe(row), self.step))

    @rule(row=ROW, case=cases)
    def reconcile(self, row: int, case: Case) -> None:
        self.observe(row)
        self.record(0, case)

    @precondition(lambda self: self.tokens)
    @rule(pick=st.integers(0, 3), case=cases)
    def record(self, pick: int, case: Case) -> None:
        row, token, step = self.token(-1 - pick)
        inputs, at = self.at_version(case.inputs()), (self.now, self.now - 200)
        self.real.record(row, token, inputs, at)
        plain = self.rows[row]
        if plain.changed_step <= step:
            plain.node, plain.topology, plain.result = inputs.node, inputs.topology, inputs.result
            plain.written_at, plain.decided = at, None

    @precondition(lambda self: self.tokens)
    @rule(pick=st.integers(0, 3), case=cases)
    def confirm(self, pick: int, case: Case) -> None:
        row, token, step = self.token(-1 - pick)
        plain, inputs, at = self.rows[row], case.inputs(), (self.now, self.now)
        if plain.node is not None and plain.decided is not None:
            inputs = self.brought_to_what_is_desired(plain, plain.decided)
        honoured = (
            plain.node is not None
            and plain.decided is not None
            and plain.changed_step <= step
            and plain.decided_step <= step
        )
        assert self.real.confirm(row, token, self.at_version(inputs), at) is honoured
        if honoured:
            plain.node, plain.topology, plain.written_at = inputs.node, inputs.topology, at

    @rule(row=ROW)
    def bring(self, row: int) -> None:
        """What a worker does that nothing comes between."""
        self.observe(row)
        self.confirm(0, CASE)

    @rule(row=st.none() | ROW)
    def invalidate(self, row: int | None) -> None:
        self.step += 1
        if row is None:
            self.real.invalidate_all()
        else:
            self.real.invalidate(row)
        for plain in self.rows if row is None else [self.rows[row]]:
            self.change(plain)

    @rule(
        offers=st.tuples(*ROWS * [cases]),
        asked=st.just(set(range(ROWS))) | st.sets(ROW),
        switched=st.sampled_from([None, None, None, *range(ROWS)]),
        seconds=st.sampled_from([0.0, 99.0, 100.0, 101.0, 500.0]),
    )
    def decide(
        self, offers: tuple[Case, ...], asked: set[int], switched: int | None, seconds: float
    ) -> None:
        self.step, self.now = self.step + 1, self.now + seconds
        rows = [row for row in sorted(asked) if self.rows[row].node is not None]
        cache = cache_of(list(offers))
        if switched is not None:
            cache.settings.enable[switched] = False
        decided = self.real.decide(cache, np.array(rows, np.intp), self.now)
        for at, row in enumerate(rows):
            plain = self.rows[row]
            case = self.case_of(plain, offers[row])
            due, left = case.plain(plain.node, plain.topology)
            plain.decided, plain.decided_step = case, self.step
            if row == switched:
                self.change(plain)
                due, left = True, float("inf")
            assert bool(decided.due[at]) is due, case
            assert decided.left_seconds[at] == pytest.approx(left, abs=0.01), case

    @invariant()
    def shows_what_the_model_says(self) -> None:
        there = self.real.are_reconciled(np.arange(ROWS))
        assert there.tolist() == [plain.node is not None for plain in self.rows]
        for row, plain in enumerate(self.rows):
            result, desired = self.real.calculated(row), self.real.decided(row)
            if plain.node is None:
                assert result is desired is None
                assert not self.real.covers(row, None, None, None)
                continue
            assert result == plain.result
            assert self.real.covers(row, plain.node, plain.topology, None)
            newer = self.with_version(plain.node, self.step + 1)
            assert not self.real.covers(row, newer, plain.topology, None)
            if plain.decided is None:
                assert desired is None
            else:
                wanted = plain.decided.wanted(plain.node)
                assert desired is not None
                assert change(plain.node, desired.desired) == change(plain.node, wanted)

    def change(self, plain: PlainRow) -> None:
        plain.node, plain.changed_step = None, self.step

    def at_version(self, inputs: ReconcileInputs) -> ReconcileInputs:
        """Each write is another version."""
        return inputs._replace(node=self.with_version(inputs.node, self.step))

    @staticmethod
    def with_version(node: Node, step: int) -> Node:
        return replace(node, metadata=replace(node.metadata, resource_version=str(100 + step)))

    def case_of(self, plain: PlainRow, offers: Case) -> Case:
        """A row under new offers; how fast its CPUs are stays."""
        ratio = next(iter(plain.result.annotations.values()), None)
        ages = self.now - plain.written_at[0], self.now - plain.written_at[1]
        return offers._replace(speed=None if ratio is None else float(ratio), ages=ages)

    @staticmethod
    def brought_to_what_is_desired(plain: PlainRow, decided: Case) -> ReconcileInputs:
        assert plain.node is not None
        assert plain.topology is not None
        zones = updated_zones(plain.topology, decided.wanted_zones(), 0.0, late=True)
        topology = replace(plain.topology, zones=zones or plain.topology.zones)
        return ReconcileInputs(
            written(plain.node, decided.wanted(plain.node)), topology, None, plain.result, True
        )


def written(node: Node, wanted: DesiredNode) -> Node:
    """A node once all is written that is wanted of its resources."""

    def changed(have: Any, want: Any) -> Any:
        return {name: value for name, value in {**have, **want}.items() if value is not None}

    meta, status = node.metadata, node.status
    return replace(
        node,
        metadata=replace(meta, annotations=changed(meta.annotations, wanted.beside)),
        status=replace(
            status,
            capacity=changed(status.capacity, wanted.resources),
            allocatable=changed(status.allocatable, wanted.resources),
        ),
    )


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=30)
