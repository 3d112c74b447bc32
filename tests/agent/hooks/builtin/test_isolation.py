# SPDX-License-Identifier: Apache-2.0
"""Core scheduling, resctrl groups of pods, OOM scores and terway's files."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from koord.agent.hooks.builtin.core_sched import CoreSched
from koord.agent.hooks.builtin.oom_score import OOMScoreAdj
from koord.agent.hooks.builtin.resctrl import Resctrl
from koord.agent.hooks.builtin.terway_qos import TerwayQoS
from koord.agent.hooks.pod_contexts import pod_context, sandbox_context
from koord.agent.states.pod_state import pod_state
from koord.agent.states.snapshot import Snapshot
from koord.base.errors import KoordError
from koord.kernels import resctrl
from koord.kernels.cgroup_path import KubeQos
from tests.agent.hooks.build import LAYOUT, context, inner, options, pod, qualities, snapshot
from tests.kube.harness import logged

CLASSES = {
    "lsr": {"enable": True, "coreExpeller": True},
    "ls": {"enable": True, "coreExpeller": True},
    "be": {"enable": True, "schedIdle": 1},
}
GROUP, POLICY = "koordinator.sh/core-sched-group-id", "koordinator.sh/core-sched-policy"


def core(policy: str = "coreSched", **more: Any) -> CoreSched:
    made = CoreSched(options(**more))
    made.learn(snapshot(slo=qualities(policy, **CLASSES)))
    return made


def group(made: CoreSched, qos: str, kube: str = "Burstable", **labels: str) -> object:
    answer = made.container(inner(pod(qos, kube, labels=labels)))
    return answer and answer.values["core_sched"]


@pytest.mark.parametrize(
    ("qos", "kube", "labels", "expected"),
    [("LS", "Burstable", {GROUP: "g"}, "default/g-expeller"), ("LS", "Burstable", {}, "-expeller"),
     ("LSE", "Guaranteed", {GROUP: "g"}, "default/g-expeller"),
     ("BE", "BestEffort", {GROUP: "g"}, "default/g"),
     ("BE", "BestEffort", {}, ""), ("", "Guaranteed", {GROUP: "g"}, "default/g-expeller"),
     ("", "BestEffort", {GROUP: "g"}, "default/g"), ("SYSTEM", "Burstable", {GROUP: "g"}, None),
     ("BE", "BestEffort", {GROUP: "g", POLICY: "exclusive"}, "u1"),
     ("BE", "BestEffort", {GROUP: "g", POLICY: "none"}, None),
     ("BE", "BestEffort", {GROUP: "g", POLICY: "odd"}, "default/g")],
)  # fmt: skip
def test_groups(qos: str, kube: str, labels: dict[str, str], expected: str | None) -> None:
    assert group(core(), qos, kube, **labels) == expected


def test_a_group_is_its_namespaces_own() -> None:
    made = core()
    theirs = pod("BE", "BestEffort", labels={GROUP: "g"}).pod
    theirs.metadata.namespace = "other"
    answer = made.container(inner(pod_state(theirs, LAYOUT)))
    assert answer is not None
    assert answer.values == {"core_sched": "other/g"}
    # Nor is the UID of an exclusive pod the name of its group.
    alone = group(made, "BE", "BestEffort", **{POLICY: "exclusive"})
    assert group(made, "BE", "BestEffort", **{GROUP: "u1"}) != alone == "u1"


@pytest.mark.parametrize("policy", ["", "groupIdentity", "CoreSched"])
def test_no_groups_under_another_policy(policy: str) -> None:
    assert group(core(policy), "LS") is None
    assert core(policy).kube_qos(KubeQos.BEST_EFFORT) is None
    assert group(core(has=lambda feature: False), "LS") is None


def test_the_sandbox_has_its_pods_group() -> None:
    state = pod("BE", "BestEffort", labels={GROUP: "g"})
    answer = core().container(sandbox_context(pod_context(state), "somewhere"))
    assert answer is not None
    assert answer.values == {"core_sched": "default/g"}


def test_idle_directories_and_switches() -> None:
    made = core(sysctl=lambda name: "1")
    answers = [made.kube_qos(qos) for qos in KubeQos]
    assert [answer.values for answer in answers if answer] == [
        {"cpu.idle": 0, "sched_group_identity_enabled": 0, "sched_core": 1},
        {"cpu.idle": 0},
        {"cpu.idle": 1},
    ]


INTEL = resctrl.Limits(0xFFF, min_cbm_bits=2, num_closids=8, bandwidth_gran=10, min_bandwidth=10)
INFO = resctrl.Info(INTEL, True, True, [0, 8])
AMD = INFO._replace(limits=INTEL._replace(bandwidth_gran=1, min_bandwidth=1))
RESCTRL = "node.koordinator.sh/resctrl"


def lines(config: Any, vendor: resctrl.Vendor = resctrl.Vendor.INTEL) -> list[str] | None:
    info = INFO if vendor is resctrl.Vendor.INTEL else AMD
    made = Resctrl(options(resctrl_info=lambda: (info, vendor)))
    answer = made.pod(context(pod("LS", annotations={RESCTRL: config})))
    assert answer is not None
    assert answer.resctrl_group == "koordlet-u1"
    return str(answer.values.get("resctrl.schemata", "")).splitlines()


def schemata(first: int, last: int, **per_cache: Any) -> dict[str, Any]:
    return {"llc": {"schemata": {"range": [first, last]}, **per_cache}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (schemata(0, 50), ["L3:0=3f;8=3f;"]),
        (schemata(0, 50, schemataPerCache=[{"cacheID": 8, "range": [50, 100]}]),
         ["L3:0=3f;8=fc0;"]),
        ({"llc": {"schemataPerCache": [{"cacheID": 8, "range": [0, 50]}]}}, []),
        ({"mb": {"schemata": {"percent": 85}}}, ["MB:0=90;8=90;"]),
        (schemata(0, 50) | {"mb": {"schemata": {"percent": 20}}},
         ["L3:0=3f;8=3f;", "MB:0=20;8=20;"]),
        (schemata(0, 50, schemataPerCache=[{"cacheID": 0, "range": [60, 40]},
                                           {"cacheID": 8, "range": [0, 100]}]),
         ["L3:0=3f;8=3f;"]),
        (schemata(0, 50, schemataPerCache=[{"cacheID": 5, "range": [0, 100]}]),
         ["L3:0=3f;8=3f;"]),
        (schemata(11, 12), ["L3:0=c;8=c;"]),
        (schemata(60, 40), []),
        ({}, []),
    ],
)  # fmt: skip
def test_schemata_of_a_pod(config: Any, expected: list[str]) -> None:
    assert lines(config) == expected


def test_bandwidth_on_amd() -> None:
    assert lines({"mb": {"schemata": {"percent": 80}}}, resctrl.Vendor.AMD) == ["MB:0=128;8=128;"]
    assert lines({"mb": {"schemata": {"percent": 100}}}, resctrl.Vendor.AMD) == [
        "MB:0=2048;8=2048;"
    ]


def test_no_group_without_the_annotation_or_the_hardware() -> None:
    made = Resctrl(options(resctrl_info=lambda: (INFO, resctrl.Vendor.INTEL)))
    assert made.pod(context(pod("LS"))) is None
    assert made.container(inner(pod("LS"))) is None
    state = pod("LS", annotations={RESCTRL: schemata(0, 50)})
    assert Resctrl(options()).pod(context(state)) is None
    answer = made.container(inner(state))
    assert answer is not None
    assert answer.resctrl_group == "koordlet-u1"
    with pytest.raises(KoordError):
        made.pod(context(pod("LS", annotations={RESCTRL: "{"})))


def test_what_could_not_be_had_is_in_the_reason() -> None:
    made = Resctrl(options(resctrl_info=lambda: (INFO, resctrl.Vendor.INTEL)))
    config = schemata(11, 12, schemataPerCache=[{"cacheID": 5, "range": [0, 50]}])
    answer = made.pod(context(pod("LS", annotations={RESCTRL: config})))
    assert answer is not None
    assert "widened" in answer.reason
    assert "cache 5 is not on this node" in answer.reason


SPEC, SCORE = "koordinator.sh/oom-score-adj-spec", "koordinator.sh/oom-score-adj"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [({}, None), ({SCORE: "-500"}, -500), ({SPEC: {"main": 7}, SCORE: "-500"}, 7),
     ({SPEC: {"other": 7}, SCORE: "-500"}, -500), ({SPEC: {"main": 0}}, 0)],
)  # fmt: skip
def test_oom_scores(annotations: dict[str, Any], expected: int | None) -> None:
    state = pod("LS", annotations=annotations)
    answer = OOMScoreAdj(options()).container(inner(state))
    assert (answer and answer.oom_score_adj) == expected
    assert OOMScoreAdj(options()).container(replace(inner(state), name="")) is None


@pytest.mark.parametrize(
    "annotations", [{SCORE: "1001"}, {SCORE: "x"}, {SPEC: "{"}, {SPEC: {"main": -1001}}]
)
def test_a_malformed_score_is_an_error(annotations: dict[str, Any]) -> None:
    with pytest.raises(KoordError):
        OOMScoreAdj(options()).container(inner(pod("LS", annotations=annotations)))


def terway(total: str = "1000", policy: str = "terway-qos", **classes: Any) -> dict[str, Any]:
    strategy: dict[str, Any] = {"policies": {"netQOSPolicy": policy}}
    strategy |= {f"{name}Class": {"networkQOS": rows} for name, rows in classes.items()}
    return {"resourceQOSStrategy": strategy, "systemStrategy": {"totalNetworkBandwidth": total}}


def test_terways_files() -> None:
    ls = {"enable": True, "ingressRequest": 40, "ingressLimit": "600", "egressRequest": 20,
          "egressLimit": 50}  # fmt: skip
    slo = terway(ls=ls, be={"enable": False, "ingressRequest": 40})
    limits = {"koordinator.sh/networkQOS": {"ingressLimit": "80", "egressLimit": "16"}}
    pods = [pod("LS", annotations=limits), pod("", "BestEffort", uid="u2"),
            pod("SYSTEM", uid="u3"), pod("BE", uid="u4", phase="Failed"),
            pod("BE", uid="u5", annotations={"koordinator.sh/networkQOS": "{"})]  # fmt: skip
    bandwidth, rows = TerwayQoS(options()).node(snapshot(*pods, slo=slo))
    assert bandwidth.value == (
        "hw_tx_bps_max 125\nhw_rx_bps_max 125\n"
        "offline_l1_tx_bps_min 25\noffline_l1_tx_bps_max 62\n"
        "offline_l1_rx_bps_min 50\noffline_l1_rx_bps_max 75\n"
        "offline_l2_tx_bps_min 0\noffline_l2_tx_bps_max 0\n"
        "offline_l2_rx_bps_min 0\noffline_l2_rx_bps_max 0\n"
    )
    document = json.loads(str(rows.value))
    assert document["u1"] == {
        "podName": "pod-u1", "podNamespace": "default", "podUID": "u1", "prio": 1,
        "cgroupDir": "/sys/fs/cgroup/net_cls/kubepods/burstable/podu1",
        "qosConfig": {"ingressBandwidth": 10, "egressBandwidth": 2},
    }  # fmt: skip
    assert {uid: row["prio"] for uid, row in document.items()} == {"u1": 1, "u2": 2, "u3": 0}


def test_malformed_limits_are_told_of_once_a_state() -> None:
    """However often the hook is asked, and again once the annotation says something else."""
    hook, key = TerwayQoS(options()), "koordinator.sh/networkQOS"

    def asked(annotation: str) -> Snapshot:
        return snapshot(pod("LS", annotations={key: annotation}), slo=terway())

    with logged("koord.agent.hooks", logging.WARNING) as told:
        for annotation in ("{", "{", "[]", "{}", "{"):
            hook.node(asked(annotation))
    found = [record.__dict__["koord_fields"] for record in told]
    assert [each["hook"] for each in found] == ["TerwayQoS"] * 3
    assert len({each["error"] for each in found}) == 2


def test_terway_is_off_under_another_policy_and_refuses_nonsense() -> None:
    hook = TerwayQoS(options())
    assert hook.node(snapshot(slo=terway(policy="tc"))) == []
    assert hook.node(snapshot()) == []
    for bad in ({"ingressLimit": "2k"}, {"egressLimit": "x"}, {"egressRequest": "-1"},
                {"egressRequest": 200}, {"ingressLimit": -5}):  # fmt: skip
        with pytest.raises(KoordError, match=r"networkQOS\."):
            hook.node(snapshot(slo=terway(ls={"enable": True, **bad})))
    with pytest.raises(KoordError):
        hook.node(snapshot(slo=terway("-1")))
