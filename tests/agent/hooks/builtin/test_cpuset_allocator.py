# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from koord.agent.hooks.builtin.cpuset_allocator import CPUSetAllocator
from koord.api.kinds.slo_strategies import HostApplication
from koord.base.errors import KoordError
from tests.agent.hooks.build import POOLS, STATUS, context, inner, options, pod, snapshot

BOUND = {STATUS: {"cpuset": "2-3"}}
SHARED, QUOTA = "0-7,8-15", "cpu.cfs_quota_us"
SYSTEM = {"node.koordinator.sh/system-qos-resource": {"cpuset": "14-15"}}
STATIC = {"kubelet.koordinator.sh/cpu-manager-policy": {"policy": "static"}}


def on_nodes(*rows: tuple[int, dict[str, str]]) -> dict[str, Any]:
    return {STATUS: {"numaNodeResources": [{"node": n, "resources": r} for n, r in rows]}}


def hook(nrt: dict[str, Any] | None = POOLS, **more: Any) -> CPUSetAllocator:
    made = CPUSetAllocator(options(**more))
    made.learn(snapshot(nrt=nrt))
    return made


def cpus(made: CPUSetAllocator, *args: Any, **more: Any) -> object:
    answer = made.container(inner(pod(*args, **more)))
    return answer and answer.values["cpuset.cpus"]


@pytest.mark.parametrize(
    ("nrt", "qos", "kube", "annotations", "expected"),
    [
        ({}, "LSR", "Guaranteed", BOUND, "2-3"),
        (POOLS, "LSE", "Guaranteed", BOUND, "2-3"),
        (POOLS, "LS", "Burstable", on_nodes((1, {"cpu": "2"}), (0, {"cpu": "1"})), "8-15,0-7"),
        (POOLS, "", "Burstable", on_nodes((1, {"cpu": "2"})), "8-15"),
        (POOLS, "LS", "Burstable", on_nodes((1, {"memory": "1Gi"})), SHARED),
        (POOLS, "LS", "Burstable", on_nodes((1, {"cpu": "0"})), SHARED),
        (POOLS, "BE", "BestEffort", on_nodes((1, {"kubernetes.io/batch-cpu": "500"})), ""),
        (POOLS | SYSTEM, "SYSTEM", "Burstable", {}, "14-15"),
        (POOLS, "SYSTEM", "Burstable", {}, SHARED),
        (POOLS, "LS", "Burstable", {}, SHARED),
        (POOLS, "LS", "BestEffort", {}, SHARED),
        (POOLS, "BE", "BestEffort", {}, ""),
        (POOLS, "", "BestEffort", {}, ""),
        (POOLS | STATIC, "LS", "Burstable", {}, SHARED),
        (POOLS | STATIC, "", "Burstable", {}, None),
        (POOLS, "", "Guaranteed", {}, SHARED),
    ],
)
def test_first_match_wins(
    nrt: dict[str, Any], qos: str, kube: str, annotations: dict[str, Any], expected: str | None
) -> None:
    assert cpus(hook(nrt), qos, kube, annotations=annotations) == expected


def test_be_pods_stay_on_their_nodes_with_the_gate() -> None:
    annotations = on_nodes((1, {"kubernetes.io/batch-cpu": "500"}))
    made = hook(on={"BECPUManager"})
    assert cpus(made, "BE", "BestEffort", annotations=annotations) == "10-15"


def test_without_a_topology_only_bound_cpus_are_known() -> None:
    made = hook(None)
    assert cpus(made, "LS", "Burstable") is None
    assert cpus(made, "LSR", "Guaranteed", annotations=BOUND) == "2-3"


def test_bound_cpus_lift_the_quota_at_both_levels() -> None:
    state = pod("LSR", "Guaranteed", annotations=BOUND)
    made = hook()
    answer = made.pod(context(state))
    assert answer is not None
    assert answer.values == {QUOTA: -1}
    answer = made.container(inner(state))
    assert answer is not None
    assert answer.values == {"cpuset.cpus": "2-3", QUOTA: -1}
    kept = hook(disable_unset_cpu_quota=True)
    assert kept.pod(context(state)) is None
    answer = kept.container(inner(state))
    assert answer is not None
    assert QUOTA not in answer.values
    assert made.pod(context(pod("LS"))) is None


def test_a_malformed_annotation_is_an_error() -> None:
    state = pod("LSR", annotations={STATUS: "{"})
    with pytest.raises(KoordError):
        hook().container(inner(state))
    with pytest.raises(KoordError):
        hook().pod(context(state))


@pytest.mark.parametrize(
    "bad",
    [{"node.koordinator.sh/cpu-shared-pools": "{"},
     {"node.koordinator.sh/system-qos-resource": {"cpuset": "a-b"}}],
)  # fmt: skip
def test_a_malformed_topology_leaves_the_last_good_rule(bad: dict[str, Any]) -> None:
    made = hook()
    with pytest.raises(KoordError):
        made.learn(snapshot(nrt=POOLS | bad))
    assert cpus(made, "LS") == SHARED


def test_an_empty_pool_gives_no_stray_comma() -> None:
    rows = [{"node": 0, "cpuset": ""}, {"node": 1, "cpuset": "4-7"}]
    pools = {"node.koordinator.sh/cpu-shared-pools": rows}
    assert cpus(hook(pools), "LS") == "4-7"


def test_host_applications_of_ls_only() -> None:
    answer = hook().host_application(HostApplication(name="nginx", qos="LS"))
    assert answer is not None
    assert answer.values == {"cpuset.cpus": SHARED}
    for qos in ("", "BE", "LSR"):
        with pytest.raises(KoordError):
            hook().host_application(HostApplication(name="nginx", qos=qos))
