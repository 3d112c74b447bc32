# SPDX-License-Identifier: Apache-2.0
"""DefaultEvictor: which pods it protects, by literal examples."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koord.api import codec
from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.pod import Pod
from koord.api.kinds.storage import PersistentVolumeClaim
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.base.errors import KoordError
from koord.controllers.descheduler.plugins.kubernetes.default_evictor import (
    DefaultEvictor,
    FilterVerdicts,
)
from tests.controllers.descheduler.planning.worlds import budget
from tests.controllers.descheduler.world import (
    RecordedEvictions,
    cluster,
    make,
    node,
    pod,
    run,
)

EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
NODES = [node("n1"), node("n2", labels={"pool": "b"})]
PODS = [
    pod("plain"),
    pod("bare", owner=None),
    pod("failed-bare", owner=None, status={"phase": "Failed"}),
    pod("daemon", owner_kind="DaemonSet"),
    pod("critical", spec={"priority": 2_000_000_000}),
    pod("local", spec={"volumes": [{"name": "v", "emptyDir": {}}]}),
    pod("claims", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
    pod("devices", spec={"resourceClaims": [{"name": "gpu"}]}),
    pod("mirror", annotations={"kubernetes.io/config.mirror": "x", EVICT: "true"}),
    pod("static", annotations={"kubernetes.io/config.source": "file"}),
    pod("of-the-api", annotations={"kubernetes.io/config.source": "api"}),
    pod("shy", annotations={PREFER: ""}),
    pod("asks", owner=None, annotations={EVICT: ""}),
]
USUAL = {"plain", "claims", "devices", "mirror", "of-the-api", "shy", "asks"}


def _evicted(args: dict[str, Any] | None, **more: Any) -> set[str]:
    pods = more.pop("pods", PODS)
    view = cluster(more.pop("nodes", NODES), pods, **more)
    return set(run("deschedule", "PodLifeTime", {"maxPodLifeTimeSeconds": 0}, view, evictor=args))


@pytest.mark.parametrize(
    ("args", "more", "less"),
    [
        ({"ignorePodsWithoutPDB": False}, set(), set()),
        ({"evictLocalStoragePods": True}, {"local"}, set()),
        ({"evictDaemonSetPods": True}, {"daemon"}, set()),
        ({"evictSystemCriticalPods": True}, {"critical"}, set()),
        ({"evictFailedBarePods": True}, {"failed-bare"}, set()),
        ({"ignorePvcPods": True}, set(), {"claims"}),
        ({"ignorePodsWithoutPDB": True}, set(), USUAL - {"mirror", "asks"}),
        ({"noEvictionPolicy": "Mandatory"}, set(), {"shy"}),
        ({"podProtections": {"extraEnabled": ["PodsWithResourceClaims"]}}, set(), {"devices"}),
        ({"podProtections": {"defaultDisabled": ["DaemonSetPods", "FailedBarePods"]}},
         {"daemon", "failed-bare"}, set()),
        ({"labelSelector": {"matchLabels": {"a": "b"}}}, set(), USUAL - {"mirror", "asks"}),
        ({"labelSelector": {}}, set(), set()),
        ({"priorityThreshold": {"value": 100}}, set(), set()),
    ],
)  # fmt: skip
def test_protections(args: dict[str, Any], more: set[str], less: set[str]) -> None:
    assert _evicted(args) == (USUAL | more) - less


def test_a_pod_that_is_being_deleted_stays() -> None:
    import msgspec

    going = pod("going")
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp
    assert msgspec.structs.asdict(going.metadata)["deletion_timestamp"]
    assert _evicted(None, pods=[going]) == set()


def test_a_threshold_spares_its_own_priority_and_above() -> None:
    pods = [pod("none"), pod("below", spec={"priority": 99}), pod("at", spec={"priority": 100})]
    assert _evicted({"priorityThreshold": {"value": 100}}, pods=pods) == {"none", "below"}
    by_name = {"priorityThreshold": {"name": "web"}}
    web = codec.convert({"metadata": {"name": "web"}, "value": 100}, PriorityClass, "web", "")
    assert _evicted(by_name, pods=pods, priority_classes={"web": web}) == {"none", "below"}
    with pytest.raises(KoordError, match=r"priorityThreshold\.name"):
        _evicted(by_name, pods=pods)
    off = {**by_name, "evictSystemCriticalPods": True}
    assert _evicted(off, pods=pods) == {"none", "below", "at"}


def test_claims_of_other_storage_classes_do_not_protect() -> None:
    protects = {"config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "local"}]}}}
    args = {"podProtections": {"extraEnabled": ["PodsWithPVC"], **protects}}

    def claim(storage_class: str) -> dict[tuple[str, str], PersistentVolumeClaim]:
        document = {"metadata": {"name": "c"}, "spec": {"storageClassName": storage_class}}
        return {("default", "c"): codec.convert(document, PersistentVolumeClaim, "c", "")}

    pods = [PODS[6]]
    assert _evicted(args, pods=pods, claims=claim("remote")) == {"claims"}
    assert _evicted(args, pods=pods, claims=claim("local")) == set()
    # What cannot be looked up protects.
    assert _evicted(args, pods=pods) == set()


def test_a_budget_covers_pods_of_its_namespace() -> None:
    document = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
    }
    budget = codec.convert(document, PodDisruptionBudget, "b", "")
    pods = [pod("covered", labels={"app": "x"}), pod("not"),
            pod("elsewhere", namespace="other", labels={"app": "x"})]  # fmt: skip
    args = {"ignorePodsWithoutPDB": True}
    assert _evicted(args, pods=pods, budgets=[budget]) == {"covered"}


def test_small_workloads_and_young_pods_stay() -> None:
    pods = [pod("a"), pod("b"), pod("single", owner="api", status={"startTime": None})]
    assert _evicted({"minReplicas": 2}, pods=pods) == {"a", "b"}
    assert _evicted({"minReplicas": 1}, pods=pods) == {"a", "b", "single"}
    started = {"phase": "Running", "startTime": "2023-11-14T22:03:20Z"}
    pods = [pod("old", status=started), pod("unknown")]
    assert _evicted({"minPodAge": "10m"}, pods=pods) == {"old"}
    assert _evicted({"minPodAge": "10m1s"}, pods=pods) == set()


def test_before_eviction_another_ready_node_must_take_the_pod() -> None:
    assert _evicted({"nodeFit": True}, pods=[pod("a")]) == {"a"}
    assert _evicted({"nodeFit": True, "nodeSelector": "pool=b"}, pods=[pod("a")]) == {"a"}
    assert _evicted({"nodeFit": True, "nodeSelector": "pool!=b"}, pods=[pod("a")]) == set()
    asks = pod("a", annotations={EVICT: ""})
    assert _evicted({"nodeFit": True, "nodeSelector": "pool!=b"}, pods=[asks]) == set()


def test_namespaces_by_their_labels() -> None:
    spare = {"metadata": {"name": "default", "labels": {"tier": "spare"}}}
    namespaces = {"default": codec.convert(spare, Namespace, "default", "")}
    args = {"namespaceLabelSelector": {"matchLabels": {"tier": "spare"}}}
    pods = [pod("a"), pod("b", namespace="other")]
    assert _evicted(args, pods=pods, namespaces=namespaces) == {"a"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"priorityThreshold": {"value": 1, "name": "a"}}, "one of value and name"),
        ({"priorityThreshold": {"value": 2_000_000_001}}, "at most 2000000000"),
        ({"podProtections": {"extraEnabled": ["PodsWithPvc"]}}, "extraEnabled[0]"),
        ({"podProtections": {"extraEnabled": ["PodsWithPVC"] * 2}}, "every protection once"),
        ({"podProtections": {"extraEnabled": ["PodsWithPVC"]}, "evictDaemonSetPods": True},
         "evictDaemonSetPods: got True, expected false beside podProtections"),
        ({"noEvictionPolicy": "Sometimes"}, "one of Preferred, Mandatory"),
        ({"nodeSelector": "a in b"}, "a label selector"),
    ],
)  # fmt: skip
def test_wrong_arguments_name_their_place(args: dict[str, Any], message: str) -> None:
    with pytest.raises(KoordError) as caught:
        make("deschedule", "PodLifeTime", {"states": ["Failed"]}, RecordedEvictions(), args)
    assert message in str(caught.value)
    assert ".pluginConfig[0].args." in str(caught.value)


def test_a_verdict_is_of_the_round_and_of_the_pod() -> None:
    descheduling = make("deschedule", "PodLifeTime", {"maxPodLifeTimeSeconds": 0},
                        RecordedEvictions())  # fmt: skip
    handle = descheduling.profiles[0].handle
    judged = pod("a")
    handle.begin_round(cluster([node("n1")], [judged]))
    assert handle.evictor.filter(judged)
    # A pod that changes is another object, and judged anew; its old verdict goes with it.
    changed = pod("a", owner=None)
    handle.begin_round(cluster([node("n1")], [changed]))
    assert not handle.evictor.filter(changed)
    assert handle.evictor.filter(judged)


def test_what_the_cluster_decides_is_judged_anew_each_round() -> None:
    args = {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}}
    descheduling = make("deschedule", "PodLifeTime", {"maxPodLifeTimeSeconds": 0},
                        RecordedEvictions(), evictor=args)  # fmt: skip
    handle = descheduling.profiles[0].handle
    judged = pod("a", labels={"app": "web"})
    handle.begin_round(cluster([node("n1")], [judged]))
    assert not handle.evictor.filter(judged)
    handle.begin_round(cluster([node("n1")], [judged], budgets=[budget("web", 1, app="web")]))
    assert handle.evictor.filter(judged)


def test_pods_of_whoever_asks_with_his_own_are_judged_each() -> None:
    descheduling = make("deschedule", "PodLifeTime", {"maxPodLifeTimeSeconds": 0},
                        RecordedEvictions())  # fmt: skip
    handle = descheduling.profiles[0].handle
    handle.begin_round(cluster([node("n1")], [pod("a")]))
    # Pods of whoever asks with his own come and go, and each is judged by itself.
    for number in range(50):
        assert handle.evictor.filter(pod(f"p{number}")) != handle.evictor.filter(
            pod(f"q{number}", owner=None)
        )


def test_verdicts_are_of_pods_that_are_there() -> None:
    """What was judged in an earlier round is remembered once, and no longer than the pod is."""
    verdicts, here = FilterVerdicts(), [pod(f"p{at}") for at in range(4)]
    verdicts.keep(here)
    for each in here:
        verdicts.put(each, each is not here[0])
    verdicts.keep(here[:2])
    assert len(verdicts) == 2
    assert [verdicts.of(each) for each in here] == [False, True, None, None]


def test_a_pod_is_judged_once_in_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    refusal = DefaultEvictor.refusal

    def counted(self: DefaultEvictor, of: Pod) -> str:
        asked.append(of.metadata.name)
        return refusal(self, of)

    monkeypatch.setattr(DefaultEvictor, "refusal", counted)
    rounds = make("deschedule", "PodLifeTime", {"maxPodLifeTimeSeconds": 0}, RecordedEvictions())
    pods = [pod("a"), pod("b", owner=None)]
    for there in (pods, pods, pods[:1], pods):
        asyncio.run(rounds.run(cluster(NODES, there)))
    assert asked == ["a", "b", "b"]
