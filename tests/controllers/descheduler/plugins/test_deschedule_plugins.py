# SPDX-License-Identifier: Apache-2.0
"""The deschedule plugins of kubernetes-sigs/descheduler, each by literal examples."""

from __future__ import annotations

from typing import Any

import pytest

from koord.base.errors import KoordError
from tests.controllers.descheduler.world import cluster, node, pod, run

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
HOST = "kubernetes.io/hostname"


def _waiting(reason: str) -> list[dict[str, Any]]:
    return [{"name": "c", "restartCount": 4, "state": {"waiting": {"reason": reason}}}]


def _terminated(code: int, reason: str = "Error") -> list[dict[str, Any]]:
    return [{"name": "c", "state": {"terminated": {"exitCode": code, "reason": reason}}}]


def _life_time(args: dict[str, Any], *pods: Any) -> list[str]:
    return run("deschedule", "PodLifeTime", args, cluster([node("n1"), node("n2")], pods))


def test_a_pod_has_to_be_older_than_the_most_and_the_oldest_goes_first() -> None:
    pods = [pod("young", age=600), pod("old", "n2", age=601), pod("older", age=9000)]
    assert _life_time({"maxPodLifeTimeSeconds": 600}, *pods) == ["older", "old"]


def test_a_pod_from_the_future_is_not_old() -> None:
    assert _life_time({"maxPodLifeTimeSeconds": 0}, pod("a", age=-100), pod("b", age=1)) == ["b"]


def test_states_are_phases_reasons_and_states_of_containers() -> None:
    pods = [
        pod("fine"),
        pod("pulls", status={"phase": "Pending", "containerStatuses": _waiting("ErrImagePull")}),
        pod("lost", status={"phase": "Failed", "reason": "NodeLost"}),
        pod("inits", status={"initContainerStatuses": _waiting("ErrImagePull")}),
    ]
    args: dict[str, Any] = {"states": ["ErrImagePull", "NodeLost"]}
    assert sorted(_life_time(args, *pods)) == ["lost", "pulls"]
    args["includingInitContainers"] = True
    assert sorted(_life_time(args, *pods)) == ["inits", "lost", "pulls"]


def test_conditions_may_ask_for_the_time_of_their_last_transition() -> None:
    moment = "2023-11-14T22:03:20Z"  # 600 seconds before now
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": moment}
    pods = [pod("a", status={"conditions": [ready]}), pod("b", status={"conditions": []})]
    wanted = {"type": "Ready", "status": "False", "minTimeSinceLastTransitionSeconds": 600}
    assert _life_time({"conditions": [wanted]}, *pods) == ["a"]
    wanted["minTimeSinceLastTransitionSeconds"] = 601
    assert _life_time({"conditions": [wanted]}, *pods) == []


def test_exit_codes_and_owner_kinds_narrow_further() -> None:
    pods = [
        pod("a", status={"containerStatuses": _terminated(137)}),
        pod("b", status={"containerStatuses": _terminated(0)}),
        pod("job", owner_kind="Job", status={"containerStatuses": _terminated(137)}),
    ]
    assert sorted(_life_time({"exitCodes": [137]}, *pods)) == ["a", "job"]
    only_jobs = {"exitCodes": [137], "ownerKinds": {"include": ["Job"]}}
    assert _life_time(only_jobs, *pods) == ["job"]
    no_jobs = {"exitCodes": [137], "ownerKinds": {"exclude": ["Job"]}}
    assert _life_time(no_jobs, *pods) == ["a"]


def test_failed_pods_go_an_hour_after_they_were_made() -> None:
    failed = {"phase": "Failed", "containerStatuses": _terminated(1, "OOMKilled")}
    pods = [
        pod("new", age=3599, status=failed), pod("old", age=3600, status=failed), pod("runs"),
    ]  # fmt: skip
    view = cluster([node("n1"), node("n2")], pods)
    assert run("deschedule", "RemoveFailedPods", None, view) == ["old"]
    args = {"minPodLifetimeSeconds": 0, "reasons": ["OOMKilled"], "exitCodes": [2]}
    assert run("deschedule", "RemoveFailedPods", args, view) == []
    args["exitCodes"] = [1]
    assert run("deschedule", "RemoveFailedPods", args, view) == ["new", "old"]
    args["excludeOwnerKinds"] = ["ReplicaSet"]
    assert run("deschedule", "RemoveFailedPods", args, view) == []


def test_too_many_restarts_go_from_the_most() -> None:
    def restarts(*counts: int) -> dict[str, Any]:
        return {"containerStatuses": [{"name": str(n), "restartCount": n} for n in counts]}

    pods = [
        pod("a", status=restarts(3, 2)), pod("b", status=restarts(9)),
        pod("few", status=restarts(4)),
        pod("backs-off", status={"containerStatuses": _waiting("CrashLoopBackOff") * 2}),
    ]  # fmt: skip
    view = cluster([node("n1"), node("n2")], pods)
    name = "RemovePodsHavingTooManyRestarts"
    args: dict[str, Any] = {"podRestartThreshold": 5}
    assert run("deschedule", name, args, view) == ["b", "backs-off", "a"]
    args["states"] = ["CrashLoopBackOff"]
    assert run("deschedule", name, args, view) == ["backs-off"]


def test_a_misplaced_pod_goes_if_another_node_takes_it() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    wants = pod("wants", spec={"affinity": {"nodeAffinity": required}})
    args = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
    name = "RemovePodsViolatingNodeAffinity"
    plain, fast = node("n1"), node("n2", labels={"disk": "ssd"})
    assert run("deschedule", name, args, cluster([plain, fast], [wants])) == ["wants"]
    nowhere = cluster([plain, node("n2")], [wants])
    assert run("deschedule", name, args, nowhere) == []
    full = cluster([plain, node("n2", labels={"disk": "ssd"}, cpu="50m")], [wants])
    assert run("deschedule", name, args, full) == []


def test_a_pod_goes_to_where_it_prefers_to_be() -> None:
    def prefers(weight: int, zone: str) -> dict[str, Any]:
        expression = {"key": "zone", "operator": "In", "values": [zone]}
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    kind = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {kind: [prefers(10, "a"), prefers(20, "b")]}}
    nodes = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
    args = {"nodeAffinityType": [kind]}
    name = "RemovePodsViolatingNodeAffinity"
    pods = [pod("in-a", "n1", spec={"affinity": affinity}),
            pod("in-b", "n2", spec={"affinity": affinity})]  # fmt: skip
    assert run("deschedule", name, args, cluster(nodes, pods)) == ["in-a"]


def test_taints_that_nobody_tolerates() -> None:
    tolerates = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    soft = {"key": "old", "effect": "PreferNoSchedule"}
    nodes = [node("n1", taints=[TAINT, soft]), node("n2")]
    view = cluster(nodes, [pod("a"), pod("b", spec=tolerates), pod("c", "n2")])
    name = "RemovePodsViolatingNodeTaints"
    assert run("deschedule", name, None, view) == ["a"]
    assert run("deschedule", name, {"includePreferNoSchedule": True}, view) == ["a", "b"]
    assert run("deschedule", name, {"excludedTaints": ["dedicated=db"]}, view) == []
    assert run("deschedule", name, {"excludedTaints": ["dedicated=web"]}, view) == ["a"]
    assert run("deschedule", name, {"includedTaints": ["old"]}, view) == []
    assert run("deschedule", name, {"includedTaints": ["dedicated=db"]}, view) == ["a"]


def test_the_owner_of_a_term_goes_and_its_peer_stays() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    affinity = {"affinity": {"podAntiAffinity": required}}
    nodes = [node(f"n{n}", labels={HOST: f"n{n}"}) for n in (1, 2)]
    labels = {"app": "x"}
    pods = [
        pod("a", labels=labels, spec={**affinity, "priority": 5}),
        pod("b", labels=labels, spec={**affinity, "priority": 1}),
        pod("c", "n2", labels=labels, spec=affinity),
    ]
    name = "RemovePodsViolatingInterPodAntiAffinity"
    # b has the lower priority; without it a violates nothing, and c is alone on its node.
    assert run("deschedule", name, None, cluster(nodes, pods)) == ["b"]
    same_zone = [node(f"n{n}", labels={HOST: "one"}) for n in (1, 2)]
    assert run("deschedule", name, None, cluster(same_zone, pods)) == ["b", "a"]


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        ("PodLifeTime", {}, "got 'nothing', expected one of maxPodLifeTimeSeconds"),
        ("PodLifeTime", {"states": ["Runing"]}, "states[0]: got 'Runing'"),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": -1}, "maxPodLifeTimeSeconds: got -1"),
        ("RemovePodsHavingTooManyRestarts", {}, "podRestartThreshold: got 0"),
        ("RemovePodsViolatingNodeAffinity", {}, "nodeAffinityType"),
        ("RemoveFailedPods", {"reason": []}, "'reason', expected a known field, such as reasons"),
        ("RemoveFailedPods",
         {"namespaces": {"include": ["a"], "exclude": ["b"]}}, "namespaces: got 'include and"),
        ("RemovePodsViolatingNodeTaints",
         {"includedTaints": ["a"], "excludedTaints": ["b"]}, "includedTaints"),
    ],
)  # fmt: skip
def test_wrong_arguments_name_their_place(plugin: str, args: dict[str, Any], message: str) -> None:
    with pytest.raises(KoordError) as caught:
        run("deschedule", plugin, args, cluster([node("n1"), node("n2")], []))
    text = str(caught.value)
    assert text.startswith("the test's configuration: profiles[0].pluginConfig[1].args")
    assert message in text
