# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from koord.agent.hooks.builtin.group_identity import GroupIdentity
from koord.api.kinds.slo_strategies import HostApplication
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import KubeQos
from tests.agent.hooks.build import context, inner, options, pod, qualities, snapshot

BVT = "cpu.bvt_warp_ns"
ALL = {
    "lsr": {"enable": True, "groupIdentity": 2},
    "ls": {"enable": True, "groupIdentity": 1},
    "be": {"enable": True, "groupIdentity": -1},
}
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
CPU_QOS = "koordinator.sh/cpuQOS"


def hook(slo: dict[str, Any] | None, **more: Any) -> GroupIdentity:
    made = GroupIdentity(options(**more))
    made.learn(snapshot(slo=slo))
    return made


def value(made: GroupIdentity, qos: str, kube: str, **annotations: Any) -> object:
    answer = made.pod(context(pod(qos, kube, annotations=annotations)))
    return answer and answer.values[BVT]


@pytest.mark.parametrize(
    ("qos", "kube", "expected"),
    [("LSE", GUARANTEED, 2), ("LSR", GUARANTEED, 2), ("LS", BURSTABLE, 1), ("BE", BEST_EFFORT, -1),
     ("", GUARANTEED, 2), ("", BURSTABLE, 1), ("", BEST_EFFORT, -1), ("SYSTEM", BURSTABLE, 1),
     ("LS", GUARANTEED, 1), ("BE", BURSTABLE, -1), ("nonsense", BEST_EFFORT, -1)],
)  # fmt: skip
def test_identity_of_a_pod(qos: str, kube: str, expected: int) -> None:
    made = hook(qualities(**ALL))
    assert value(made, qos, kube) == expected
    answer = made.container(inner(pod(qos, kube)))
    assert answer is not None
    assert answer.values == {BVT: expected}


def test_guaranteed_pods_without_a_class_fall_back_to_ls() -> None:
    off = {**ALL, "lsr": {"enable": False, "groupIdentity": 2}}
    assert value(hook(qualities(**off)), "", GUARANTEED) == 1
    assert value(hook(qualities(be=ALL["be"])), "", GUARANTEED) == 0
    # An LSR class that is on with identity 0 counts, unlike one that is off.
    zero = {**ALL, "lsr": {"enable": True, "groupIdentity": 0}}
    assert value(hook(qualities(**zero)), "", GUARANTEED) == 0


def test_directories_and_switches_of_the_kernel() -> None:
    made = hook(qualities(**ALL), sysctl=lambda name: "0")
    answers = {qos: made.kube_qos(qos) for qos in KubeQos}
    assert {q: a.values for q, a in answers.items() if a} == {
        KubeQos.GUARANTEED: {BVT: 0, "sched_core": 0, "sched_group_identity_enabled": 1},
        KubeQos.BURSTABLE: {BVT: 1},
        KubeQos.BEST_EFFORT: {BVT: -1},
    }
    answer = hook(qualities(**ALL)).kube_qos(KubeQos.GUARANTEED)  # a kernel without switches
    assert answer is not None
    assert answer.values == {BVT: 0}


@pytest.mark.parametrize("policy", ["coreSched", "other"])
def test_another_policy_makes_every_identity_0(policy: str) -> None:
    made = hook(qualities(policy, **ALL))
    assert value(made, "LS", BURSTABLE) == 0
    # With the switch off there is nothing to undo.
    assert value(hook(qualities(policy, **ALL), sysctl=lambda n: "0"), "LS", BURSTABLE) is None


def test_nothing_without_a_rule_or_a_kernel_that_can() -> None:
    assert value(hook(None), "LS", BURSTABLE) is None
    assert value(hook(qualities(**ALL), has=lambda feature: False), "LS", BURSTABLE) is None
    assert hook(None).kube_qos(KubeQos.BURSTABLE) is None
    assert hook(None).host_application(HostApplication(qos="LS")) is None


@pytest.mark.parametrize(
    ("own", "expected"),
    [({"enable": True, "groupIdentity": -1}, -1), ({"enable": False}, 0),
     ({"groupIdentity": 2}, 0), ({"enable": True}, 1), ({}, 0),
     ({"enable": False, "groupIdentity": 2}, 0)],
)  # fmt: skip
def test_an_ls_pod_may_bring_its_own(own: dict[str, Any], expected: int) -> None:
    made = hook(qualities(**ALL))
    assert value(made, "LS", BURSTABLE, **{CPU_QOS: own}) == expected
    assert value(made, "BE", BEST_EFFORT, **{CPU_QOS: own}) == -1


@pytest.mark.parametrize("own", ["{", '{"enable":true,"groupIdentity":3}', '{"groupIdentity":-2}'])
def test_a_malformed_one_is_an_error(own: str) -> None:
    with pytest.raises(KoordError):
        value(hook(qualities(**ALL)), "LS", BURSTABLE, **{CPU_QOS: own})


def test_host_applications() -> None:
    made = hook(qualities(**ALL))
    answers = [made.host_application(HostApplication(qos=qos)) for qos in ("LS", "BE", "SYSTEM")]
    assert [answer.values[BVT] for answer in answers if answer] == [1, -1, 0]


def test_learning_tells_whether_anything_changed() -> None:
    made = GroupIdentity(options())
    assert made.learn(snapshot(slo=qualities(**ALL)))
    assert not made.learn(snapshot(slo=qualities(**ALL)))
    assert made.learn(snapshot(slo=qualities(ls=ALL["ls"])))
