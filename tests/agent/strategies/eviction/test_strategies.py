# SPDX-License-Identifier: Apache-2.0
"""CPU and memory evictions on one node: who goes, for which reason, and when nobody does."""

from __future__ import annotations

import pytest

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies.cpuevict.strategy import CPUEvict
from koord.agent.strategies.eviction.evictor import EvictionState
from koord.agent.strategies.memoryevict.strategy import MemoryEvict
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.agent.strategies.strategy_metrics import StrategyMetrics
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.slo_strategies import ResourceThresholdStrategy
from koord.base.errors import KoordError
from koord.base.metrics import registry
from tests.agent.strategies.fakes import FakeEvictor, FakeExecutor, FakeReader
from tests.agent.strategies.nodes import NOW_MS, NOW_SECONDS, aged, node, pod, resources, tick
from tests.agent.strategies.options import gates

_GIB = 2**30
_YES = {"koordinator.sh/eviction-enabled": "true"}


def _batch(name, cpu=0, memory=0, **more):
    asked = {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": memory}
    containers = [{"name": "main", "resources": resources(asked)}]
    return pod(name, qos="BE", **{"priority": 5500, "containers": containers, **more})


class Scene:
    """A node of 100 cores and 100 GiB, with one strategy and the gates that are on."""

    def __init__(self, kind, *on, **config):
        self.evictor, self.reader = FakeEvictor(), FakeReader()
        self.hands = Actuators(FakeExecutor(), self.evictor)
        self.registry = registry()
        options = StrategyOptions(gates=gates(*on), instruments=StrategyMetrics(self.registry, "n"))
        self.strategy = kind(options)
        self.config = ResourceThresholdStrategy(enable=True, **config)
        self.pods = []
        self.allocatable = {"cpu": "100", "memory": "100Gi"}
        self.capacity = {"cpu": "100", "memory": "100Gi"}
        self.now = 0

    def tier(self, usage, request, limit, seconds=1):
        for second in range(seconds):
            at = NOW_MS - 1000 * second
            rows = {"usage": usage, "request": request, "real-limit": limit}
            for name, value in rows.items():
                self.reader.add(MetricKind.NODE_BE, at, value, "cpu", name)
        return self

    def tick(self):
        view = tick(
            None,  # type: ignore[arg-type]
            self.reader,
            pods=self.pods,
            of=node(self.capacity, self.allocatable),
            slo=NodeSLOSpec(resource_used_threshold_with_be=self.config),
            now_seconds=NOW_SECONDS + self.now,
        )
        return aged(view, node=1.0, pods=1.0, slo=1.0)

    def run(self, after=30):
        self.now += after
        return self.strategy.run(self.tick(), self.hands)

    def cpu(self, **cores):
        for name, value in cores.items():
            self.reader.add(MetricKind.POD_CPU_USAGE, NOW_MS, value, f"uid-{name}")

    def memory(self, **gib):
        for name, value in gib.items():
            self.reader.add(MetricKind.POD_MEMORY_USAGE, NOW_MS, value * _GIB, f"uid-{name}")


def _satisfaction(**more):
    config = {
        "cpu_evict_be_satisfaction_lower_percent": 30,
        "cpu_evict_be_satisfaction_upper_percent": 60,
        **more,
    }
    scene = Scene(CPUEvict, "BECPUEvict", **config)
    scene.run(0)  # the cool-down begins with the process
    return scene


def test_unsatisfied_pods_go_until_enough_is_released():
    scene = _satisfaction().tier(19_000, 80_000, 20_000)
    scene.pods = [_batch(n, 20_000) for n in "abcd"]
    scene.cpu(a=1.0, b=9.0, c=5.0, d=4.0)
    told = scene.run()
    assert told["release"] == {"BECPUEvict": {"kubernetes.io/batch-cpu": 28_000}}
    assert scene.evictor.evicted == ["b", "c"]
    assert scene.evictor.calls[0][2] == "trigger by koordlet feature BECPUEvict, kill pod: b"
    text = scene.registry.expose().decode()
    assert 'koordlet_pod_eviction{node="n",reason="evicted"} 2.0' in text
    assert 'koordlet_pod_eviction_detail{node="n",pod_name="b"' in text


def test_a_lower_priority_goes_before_a_larger_share():
    scene = _satisfaction().tier(19_000, 80_000, 20_000)
    scene.pods = [_batch("busy", 40_000), _batch("low", 40_000, priority=5000)]
    scene.cpu(busy=10.0)
    scene.run()
    assert scene.evictor.evicted == ["low"]


def test_a_priority_of_0_is_the_lowest_and_no_default():
    scene = _satisfaction().tier(19_000, 80_000, 20_000)
    scene.pods = [_batch("busy", 40_000), _batch("zero", 40_000, priority=0)]
    scene.cpu(busy=10.0)
    scene.run()
    assert scene.evictor.evicted == ["zero"]
    scene = Scene(MemoryEvict, "BEMemoryEvict", memory_evict_threshold_percent=70)
    scene.reader.add(MetricKind.NODE_MEMORY_USAGE, NOW_MS, 71.0 * _GIB)
    scene.pods = [_batch("large"), _batch("zero", priority=0)]
    scene.memory(large=9, zero=4)
    scene.run()
    assert scene.evictor.evicted == ["zero"]


def test_satisfaction_by_what_is_allocatable():
    scene = _satisfaction(cpu_evict_policy="evictByAllocatable").tier(19_000, 80_000, 80_000)
    scene.allocatable["kubernetes.io/batch-cpu"] = "20000"
    scene.pods = [_batch("a", 40_000)]
    scene.run()
    assert scene.evictor.evicted == ["a"]
    del scene.allocatable["kubernetes.io/batch-cpu"]
    scene.evictor.calls.clear()
    scene.evictor.fates.clear()
    assert scene.run()["state"] == "calm"


def test_a_window_that_is_not_covered_evicts_nobody():
    scene = _satisfaction(cpu_evict_time_window_seconds=60).tier(19_000, 80_000, 20_000, seconds=19)
    scene.pods = [_batch("a", 40_000)]
    told = scene.run()
    assert "a third of 60 s" in told["notes"]["BECPUEvict"]
    assert scene.evictor.evicted == []
    scene.tier(19_000, 80_000, 20_000, seconds=1)
    scene.run()
    assert scene.evictor.evicted == ["a"]


def test_a_window_without_a_new_sample_evicts_nobody():
    scene = _satisfaction(cpu_evict_time_window_seconds=60)
    for second in range(3, 60):
        for name, value in (("usage", 19e3), ("request", 80e3), ("real-limit", 20e3)):
            scene.reader.add(MetricKind.NODE_BE, NOW_MS - 1000 * second, value, "cpu", name)
    scene.pods = [_batch("a", 40_000)]
    assert "samples" in scene.run()["notes"]["BECPUEvict"]
    assert scene.evictor.evicted == []


def _usage(**more):
    config = {
        "cpu_evict_threshold_percent": 80,
        "evict_enabled_priority_threshold": 7999,
        **more,
    }
    scene = Scene(CPUEvict, "CPUEvict", **config)
    scene.run(0)
    scene.reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS, 85.0)
    return scene


def test_who_may_go_for_a_busy_node_and_in_which_order():
    scene = _usage()
    scene.pods = [
        _batch("small", labels=_YES),
        _batch("large", labels=_YES),
        _batch("first", labels=_YES, annotations={"koordinator.sh/eviction-priority": "-1"}),
        _batch("label", labels={**_YES, "koordinator.sh/priority": "1"}),
        _batch("garbled", labels={**_YES, "koordinator.sh/priority": "x"}),
        _batch("unasked"),
        _batch("silent", labels=_YES, annotations={"koordinator.sh/eviction-policy": "[]"}),
        _batch("torn", labels=_YES, annotations={"koordinator.sh/eviction-policy": "["}),
        _batch("prod", labels=_YES, priority=9000),
        _batch("ended", labels=_YES, phase="Failed"),
        _batch("unmeasured", labels=_YES),
    ]
    scene.cpu(small=1.0, large=2.0, first=1.0, label=1.0, garbled=1.5, unasked=9.0, silent=9.0,
              torn=9.0, prod=9.0, ended=9.0)  # fmt: skip
    told = scene.run()
    assert told["release"] == {"CPUEvict": {"cpu": 7000}}
    assert scene.evictor.evicted == ["first", "label", "large", "garbled", "small"]
    assert told["short"] == {"CPUEvict": {"cpu": 7000 - 6500}}


def test_a_feature_that_the_policy_names_may_evict():
    scene = _usage()
    allowed = {"koordinator.sh/eviction-policy": '["CPUEvict","MemoryEvict"]'}
    scene.pods = [_batch("a", labels=_YES, annotations=allowed)]
    scene.cpu(a=1.0)
    scene.run()
    assert scene.evictor.evicted == ["a"]


def test_pause_after_an_eviction_and_none_without():
    scene = _usage()
    scene.pods = [_batch(n, labels=_YES) for n in "ab"]
    scene.cpu(a=7.0, b=7.0)
    scene.run()
    assert scene.evictor.evicted == ["a"]
    scene.evictor.fates.clear()
    assert scene.run(after=19)["state"] == "cooling"
    assert scene.evictor.evicted == ["a"]
    scene.run(after=1)
    assert len(scene.evictor.evicted) == 2


def test_a_refused_pod_is_passed_over():
    scene = _usage()
    scene.pods = [_batch(n, labels=_YES) for n in "ab"]
    scene.cpu(a=7.0, b=7.0)
    scene.evictor.refused = frozenset({"uid-a"})
    told = scene.run()
    assert told["refused"] == ["default/a"]
    assert told["started"] == {"CPUEvict": ["default/b"]}


def test_what_is_under_way_counts():
    scene = _usage()
    scene.pods = [_batch(n, labels=_YES) for n in "ab"]
    scene.cpu(a=7.0, b=7.0)
    scene.evictor.fates["uid-a"] = EvictionState.UNDER_WAY
    told = scene.run()
    assert (told["counted"], scene.evictor.evicted) == (["default/a"], [])


def _requests(kind, gate, name):
    config = {
        f"{name}_allocatable_evict_threshold_percent": 120,
        f"{name}_allocatable_evict_lower_percent": 100,
        "allocatable_evict_priority_threshold": 5999,
    }
    scene = Scene(kind, gate, **config)
    scene.run(0)
    return scene


def test_requests_above_allocatable_cpu():
    scene = _requests(CPUEvict, "CPUAllocatableEvict", "cpu")
    scene.allocatable["kubernetes.io/batch-cpu"] = "10000"
    scene.pods = [_batch("a", 6000, labels=_YES), _batch("b", 9000, labels=_YES)]
    scene.cpu(a=1.0, b=1.0)
    told = scene.run()
    assert told["release"] == {"CPUAllocatableEvict": {"kubernetes.io/batch-cpu": 5000}}
    assert scene.evictor.evicted == ["b"]


@pytest.mark.parametrize("capacity", [{"memory": "100Gi"}, {"cpu": "0", "memory": "100Gi"}])
def test_a_node_without_capacity_evicts_nobody(capacity):
    scene = _requests(CPUEvict, "CPUAllocatableEvict", "cpu")
    scene.capacity = capacity
    scene.allocatable["kubernetes.io/batch-cpu"] = "10000"
    scene.pods = [_batch("a", 20_000, labels=_YES)]
    scene.cpu(a=1.0)
    with pytest.raises(KoordError, match=r"status.capacity.cpu"):
        scene.run()
    assert scene.evictor.evicted == []


def test_nothing_allocatable_releases_all():
    scene = _requests(MemoryEvict, "MemoryAllocatableEvict", "memory")
    scene.pods = [_batch("a", 0, 4 * _GIB, labels=_YES), _batch("b", 0, _GIB, labels=_YES)]
    scene.memory(a=1, b=1)
    told = scene.run()
    name = "kubernetes.io/batch-memory"
    assert told["release"] == {"MemoryAllocatableEvict": {name: 5 * _GIB}}
    assert scene.evictor.evicted == ["a", "b"]


def test_a_pod_that_asks_for_none_of_what_is_short_stays():
    """First in every order, and asks for memory alone where CPU is short, or the other way."""
    first = {"priority": 5000, "labels": _YES}
    scene = _requests(CPUEvict, "CPUAllocatableEvict", "cpu")
    scene.allocatable["kubernetes.io/batch-cpu"] = "10000"
    scene.pods = [
        _batch("memory-only", 0, 8 * _GIB, **first),
        pod("nothing", qos="BE", **first),
        _batch("a", 6000, labels=_YES),
        _batch("b", 9000, labels=_YES),
    ]
    scene.cpu(a=1.0, b=1.0, nothing=1.0, **{"memory-only": 1.0})
    told = scene.run()
    assert told["release"] == {"CPUAllocatableEvict": {"kubernetes.io/batch-cpu": 5000}}
    assert scene.evictor.evicted == ["b"]

    scene = _requests(MemoryEvict, "MemoryAllocatableEvict", "memory")
    scene.pods = [_batch("cpu-only", 4000, **first), _batch("a", 0, _GIB, labels=_YES)]
    scene.memory(a=1, **{"cpu-only": 1})
    scene.run()
    assert scene.evictor.evicted == ["a"]


def test_memory_victims_are_counted_in_bytes():
    """A thousand times the first victim's bytes would satisfy the task with that victim alone."""
    scene = Scene(
        MemoryEvict, "MemoryEvict", memory_evict_threshold_percent=80,
        evict_enabled_priority_threshold=7999,
    )  # fmt: skip
    scene.reader.add(MetricKind.NODE_MEMORY_USAGE, NOW_MS, 90 * _GIB)
    scene.pods = [_batch(n, labels=_YES) for n in "abcdef"]
    scene.memory(a=3, b=5, c=1, d=2, e=4, f=1)
    told = scene.run(0)
    assert told["release"] == {"MemoryEvict": {"memory": 12 * _GIB}}
    assert scene.evictor.evicted == ["b", "e", "a"]


def test_best_effort_pods_go_for_memory_idle_ones_last_by_name():
    scene = Scene(MemoryEvict, "BEMemoryEvict", memory_evict_threshold_percent=80)
    scene.reader.add(MetricKind.NODE_MEMORY_USAGE, NOW_MS, 99 * _GIB)
    scene.pods = [_batch(n) for n in "abcd"]
    scene.pods.append(pod("ls", qos="LS"))
    scene.memory(a=1, b=2, ls=50)
    told = scene.run(0)
    assert scene.evictor.evicted == ["b", "a", "d", "c"]
    assert told["short"] == {"BEMemoryEvict": {"memory": 18 * _GIB}}


@pytest.mark.parametrize("kind", [CPUEvict, MemoryEvict])
def test_switched_off_evicts_nobody(kind):
    scene = Scene(kind, "CPUEvict", "MemoryEvict")
    scene.config.enable = False
    scene.run(0)
    assert scene.run()["state"] == "disabled"


@pytest.mark.parametrize("part", ["pods", "node"])
def test_stale_data_evicts_nobody(part):
    scene = _usage()
    scene.pods = [_batch("a", labels=_YES)]
    scene.cpu(a=1.0)
    scene.now += 30
    with pytest.raises(KoordError, match="age"):
        scene.strategy.run(aged(scene.tick(), **{part: 4000.0}), scene.hands)
    assert scene.evictor.evicted == []


@pytest.mark.parametrize(
    ("gate", "config", "word"),
    [
        ("BECPUEvict", {"cpu_evict_be_satisfaction_lower_percent": 61,
                        "cpu_evict_be_satisfaction_upper_percent": 80}, "Lower"),
        ("BECPUEvict", {"cpu_evict_be_satisfaction_lower_percent": 50,
                        "cpu_evict_be_satisfaction_upper_percent": 40}, "Upper"),
        ("BECPUEvict", {}, "Lower"),
        ("CPUEvict", {"cpu_evict_threshold_percent": 80}, "evictEnabledPriority"),
        ("CPUEvict", {"cpu_evict_threshold_percent": 80, "cpu_evict_lower_percent": 80}, "Lower"),
        ("CPUAllocatableEvict", {"cpu_allocatable_evict_threshold_percent": 80}, "Lower"),
        ("CPUAllocatableEvict", {"cpu_allocatable_evict_threshold_percent": 80,
                                 "cpu_allocatable_evict_lower_percent": 70,
                                 "allocatable_evict_priority_threshold": 8000}, "Priority"),
    ],
)  # fmt: skip
def test_invalid_settings_are_told_by_name_and_evict_nobody(gate, config, word):
    scene = Scene(CPUEvict, gate, **config)
    scene.pods = [_batch("a", 40_000, labels=_YES)]
    scene.tier(19_000, 80_000, 20_000)
    scene.reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS, 99.0)
    scene.cpu(a=1.0)
    scene.run(0)
    assert word in scene.run()["notes"][gate]
    assert scene.evictor.evicted == []
