# SPDX-License-Identifier: Apache-2.0
"""Random histories of a quota tree, held against the model after every step."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.kernels.quota import ROOT, Charge, Figure, GroupSpec, Options, QuotaTree
from tests.models.quota import BUILTIN, KINDS, ModelTree, Spec

NAMES = ["a", "b", "c", "d", "ä"]
RESOURCES = ["cpu", "memory"]

# Small amounts meet each other's limits often; the large ones find overflow.
amount = st.one_of(st.integers(0, 12), st.sampled_from([100, 2**40, 2**63 - 1]))
small = st.integers(-8, 12)
names = st.sampled_from(NAMES)
parents = st.sampled_from([ROOT, *NAMES])
amounts = st.dictionaries(st.sampled_from(RESOURCES), amount)
deltas = st.dictionaries(st.sampled_from(RESOURCES), small, min_size=1)
specs = st.fixed_dictionaries(
    {"max": amounts},
    optional={
        "min": st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9)),
        "weight": amounts,
        "is_parent": st.booleans(),
        "allow_lent": st.booleans(),
        "scale_min": st.booleans(),
        "priority": st.integers(-1, 2),
    },
)
CHARGES = dict(zip(KINDS, Charge.__members__.values(), strict=True))


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree = QuotaTree()
        self.model = ModelTree()

    def _would_loop(self, name: str, parent: str) -> bool:
        while parent in self.model.specs and parent != name:
            parent = self.model.specs[parent].parent
        return parent == name

    @initialize(
        ends=st.tuples(parents, parents, parents), least=st.integers(0, 6), guarantee=st.booleans()
    )
    def start_crowded(self, ends: tuple[str, ...], least: int, guarantee: bool) -> None:
        """Groups that compete, since chance alone seldom makes three that do."""
        self.tree = QuotaTree(options=Options(guarantee_usage=guarantee, check_parents=True))
        self.model = ModelTree(guarantee_usage=guarantee)
        self.set_total({"cpu": 20, "memory": 9})
        for name, parent in zip("abc", ends, strict=True):
            parent = ROOT if self._would_loop(name, parent) else parent
            limits = {"cpu": 18, "memory": 12}
            self.add(name, parent, {"max": limits, "min": dict.fromkeys(limits, least)})
            self.charge(name, "request", {"cpu": 13, "memory": 8})

    @rule(total=amounts)
    def set_total(self, total: dict[str, int]) -> None:
        self.tree.set_total(total)
        self.model.total = total

    @rule(name=names, parent=parents, spec=specs)
    def add(self, name: str, parent: str, spec: dict[str, object]) -> None:
        if name in self.model.specs or self._would_loop(name, parent):
            with pytest.raises(ValueError, match="expected"):
                self.tree.add(name, parent=parent, **spec)
            return
        self.tree.add(name, GroupSpec(parent=parent, **spec))
        self.model.add(name, Spec(parent=parent, **spec))

    @rule(name=names, spec=specs)
    def update(self, name: str, spec: dict[str, object]) -> None:
        if name not in self.model.specs:
            with pytest.raises(KeyError, match="a group of this tree"):
                self.tree.update(name, **spec)
            return
        self.tree.update(name, **spec)
        self.model.update(name, **spec)

    @rule(name=names, parent=parents)
    def move(self, name: str, parent: str) -> None:
        if name not in self.model.specs:
            return
        if self._would_loop(name, parent):
            with pytest.raises(ValueError, match="parent"):
                self.tree.move(name, parent)
            return
        self.tree.move(name, parent)
        self.model.update(name, parent=parent)

    @precondition(lambda self: len(self.model.specs) > 4)
    @rule(name=names)
    def remove(self, name: str) -> None:
        if name in self.model.specs:
            self.tree.remove(name)
            self.model.remove(name)

    @rule(parent=parents, asked=st.integers(0, 9))
    def use_up_names(self, parent: str, asked: int) -> None:
        """Names come and go until columns of others are given out again."""
        for number in range(70):
            name = f"r{number}"
            self.tree.add("passing", parent=parent, max={name: 7}, min={name: 3}, weight={name: 2})
            self.tree.add_request("passing", {name: asked}, non_preemptible=True)
            self.tree.add_used("passing", {name: asked}, non_preemptible=True)
            self.tree.remove("passing")

    @rule(name=st.sampled_from(BUILTIN), maximum=amounts)
    def limit_builtin(self, name: str, maximum: dict[str, int]) -> None:
        self.tree.update(name, max=maximum)
        self.model.update(name, max=maximum)

    @rule(
        name=st.sampled_from([*NAMES, *NAMES, *BUILTIN]), kind=st.sampled_from(KINDS), delta=deltas
    )
    def charge(self, name: str, kind: str, delta: dict[str, int]) -> None:
        if name not in self.model.specs:
            return
        native = self.tree._tree
        native.charge(name, CHARGES[kind], delta)
        self.model.charge(name, kind, delta)

    @rule(name=names, request=amounts, non_preemptible=st.booleans())
    def admit(self, name: str, request: dict[str, int], non_preemptible: bool) -> None:
        if name not in self.model.specs:
            return
        decision = self.tree.admit(name, request, non_preemptible=non_preemptible)
        verdict, group, exceeded = self.model.admit(
            name, request, non_preemptible=non_preemptible, check_parents=True
        )
        assert decision.verdict.name == verdict
        fits = self.tree.fits(name, request, non_preemptible=non_preemptible)
        assert fits == (verdict == "ADMITTED")
        assert (decision.path[0] if decision.path else None) == group
        assert list(decision.exceeded) == exceeded

    @invariant()
    def every_group_agrees_with_the_model(self) -> None:
        assert set(self.tree) == {ROOT, *self.model.specs}
        for name in self.model.specs:
            assert self.tree.runtime(name) == self.model.runtime(name), name
            assert self.tree.scaled_min(name) == self.model.scaled_min(name), name
        for name in (ROOT, *self.model.specs):
            for figure in (Figure.USED, Figure.NON_PREEMPTIBLE_REQUEST, Figure.REQUEST):
                kept = self.tree.figure(name, figure)
                for key in RESOURCES:
                    assert kept.get(key, 0) == min(self._expected(name, figure, key), 2**63 - 1)

    def _expected(self, name: str, figure: Figure, key: str) -> int:
        if figure == Figure.REQUEST:
            return self.model.request(name, key)
        kind = "used" if figure == Figure.USED else "non_preemptible_request"
        return self.model.subtree(name, kind, key)

    @invariant()
    def shares_add_up(self) -> None:
        for parent in (ROOT, *self.model.specs):
            names = [n for n in self.model.children(parent) if n not in BUILTIN]
            if not self.model.attached(parent) and parent != ROOT:
                continue
            total = self.tree.runtime(parent)
            for key in self.model.shared_keys(parent):
                shares = {name: self.tree.runtime(name)[key] for name in names}
                floors = {name: self._floor(name, key) for name in names}
                assert sum(shares.values()) <= max(total.get(key, 0), sum(floors.values()))
                for name in names:
                    most = self.model.specs[name].max.get(key, 2**63 - 1)
                    assert shares[name] <= max(most, floors[name])

    def _floor(self, name: str, key: str) -> int:
        return max(self.tree.scaled_min(name).get(key, 0), self.model.guaranteed(name, key))


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=6)
