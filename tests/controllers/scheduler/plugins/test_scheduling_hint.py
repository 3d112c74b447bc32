# SPDX-License-Identifier: Apache-2.0
"""SchedulingHint, and the decider's order of preferred rows."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_koord import SchedulingHintArgs
from koord.controllers.scheduler.decision.decider import Decider, Decision
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.scheduling_hint import SchedulingHint
from tests.controllers.scheduler.decision.test_decider import Room
from tests.controllers.scheduler.pods import info, node, pod

KEY = "internal.scheduling.koordinator.sh/scheduling-hint"
OLD = "scheduling.koordinator.sh/scheduling-hint"


def decider(cpus: dict[str, int], most: int = 100) -> Decider:
    """Nodes by name and cores; the emptiest goes first among those without a hint."""
    world = ClusterState(LocalViews(), VirtualClock(0.0))
    hint, room = SchedulingHint(SchedulingHintArgs(max_hint_nodes=most), world), Room()
    for name, cores in cpus.items():
        world.table.put(node(name, cpu=str(cores)))
    plugins = ProfilePlugins(pre_filter=[hint], filter=[room], score=[(room, 1)])
    return Decider(world.table, world.accounts, plugins)


def decide(decides: Decider, text: str, key: str = KEY, cpu: str = "2") -> Decision:
    return decides.decide(info(pod("p", cpu=cpu, annotations={key: text} if text else {})))


def where(decides: Decider, hint: dict[str, Any], key: str = KEY) -> str:
    decision = decide(decides, json.dumps(hint), key)
    return decides.table.name(decision.row) if decision.row >= 0 else ""


CPUS = {"a": 4, "b": 8, "c": 1, "d": 16}


def test_only_the_named_nodes() -> None:
    decides = decider(CPUS)
    assert where(decides, {}) == "d"
    assert where(decides, {"nodeNames": ["a", "b", "gone"]}) == "b"
    assert where(decides, {"nodeNames": ["a", "b"]}, OLD) == "b"
    assert where(decides, {"nodeNames": ["c"]}) == ""
    nowhere = decide(decides, json.dumps({"nodeNames": ["gone"]}))
    assert nowhere.diagnosis is not None
    assert nowhere.diagnosis.message() == (
        "0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [SchedulingHint]."
    )


def test_preferred_nodes_go_first_in_their_order() -> None:
    decides = decider(CPUS)
    assert where(decides, {"preferredNodeNames": ["c", "a", "b"]}) == "a"
    assert where(decides, {"preferredNodeNames": ["gone", "c"]}) == "d"
    both = {"nodeNames": ["b", "d"], "preferredNodeNames": ["a", "b"]}
    assert where(decides, both) == "b"
    assert where(decider(CPUS, most=1), {"preferredNodeNames": ["c", "a"]}) == "d"


def test_the_current_key_goes_before_the_old_one() -> None:
    decides = decider(CPUS)
    hints = {KEY: '{"nodeNames": ["a"]}', OLD: '{"nodeNames": ["b"]}'}
    decision = decides.decide(info(pod("p", cpu="2", annotations=hints)))
    assert decides.table.name(decision.row) == "a"
    hints[KEY] = ""
    decision = decides.decide(info(pod("p", cpu="2", annotations=hints)))
    assert decides.table.name(decision.row) == "b"


def test_a_hint_that_cannot_be_read_is_an_error_in_one_line() -> None:
    for text in ("{", "[]", '{"nodeNames": 3}'):
        decision = decide(decider(CPUS), text)
        assert decision.row == -1
        assert decision.diagnosis is not None
        assert decision.diagnosis.error
        said = decision.diagnosis.message()
        assert "Pod default/p: annotations" in said
        assert "scheduling-hint" in said
        assert "\n" not in said


def test_extensions_are_handed_on() -> None:
    hint = {"nodeNames": ["a"], "extensions": {"DeviceShare": {"keep": True}}}
    decision = decide(decider(CPUS), json.dumps(hint))
    assert decision.cycle.state["SchedulingHint"] == {"DeviceShare": {"keep": True}}


some = st.lists(st.sampled_from([*CPUS, "gone"]), max_size=4)


@given(named=some, preferred=some, most=st.integers(1, 5), cpu=st.integers(1, 20))
def test_the_node_is_the_plain_models(
    named: list[str], preferred: list[str], most: int, cpu: int
) -> None:
    allowed = [name for name in CPUS if not named or name in named]
    fits = [name for name in allowed if CPUS[name] >= cpu]
    first = [name for name in preferred[:most] if name in fits]
    free = sorted(fits, key=lambda name: (-((CPUS[name] - cpu) * 100 // CPUS[name]), name))
    expected = (first or free or [""])[0]
    decides = decider(CPUS, most)
    text = json.dumps({"nodeNames": named, "preferredNodeNames": preferred})
    decision = decide(decides, text, cpu=str(cpu))
    assert (decides.table.name(decision.row) if decision.row >= 0 else "") == expected
