# SPDX-License-Identifier: Apache-2.0
"""Reviews of new pods: caches, lookups, profiles that cannot be used, quota trees."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import codec, decode_as
from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.meta import LabelSelector, ObjectMeta
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaProfile, ElasticQuotaProfileSpec
from koord.api.protocol import keys
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles import selection
from koord.controllers.webhook.framework.admission_decision import ALLOWED
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.pods.mutation.handler import PodMutationHandler
from tests.controllers.cluster.colocation_profiles.test_effect import profile
from tests.controllers.webhook.pods.scene import BATCH, Scene, admitted, request

Document = dict[str, Any]
POD: Document = {
    "metadata": {"name": "p", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "4Gi"}}}]},
}
COLOCATION = {
    "namespaceSelector": {"matchLabels": {"colocation": "on"}}, "qosClass": "BE",
    "priorityClassName": "koord-batch", "koordinatorPriority": 1111,
}  # fmt: skip


def test_a_plain_pod_of_a_labelled_namespace_joins_co_location() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile(COLOCATION), BATCH)
    scene.put_namespace(colocation="on")
    decision = admitted(handler, request(POD))
    assert decision.allowed
    document = decision.document
    assert document is not None
    assert document["metadata"]["labels"] == {
        "app": "web", "koordinator.sh/qosClass": "BE", "koordinator.sh/priority": "1111",
    }  # fmt: skip
    assert "namespace" not in document["metadata"]
    assert document["spec"]["priority"] == 5500
    both = {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "4Gi"}
    assert document["spec"]["containers"][0]["resources"] == {"limits": both, "requests": both}
    assert keys.EXTENDED_RESOURCE_SPEC in document["metadata"]["annotations"]
    rules = list(dict.fromkeys(effect.rule for effect in decision.effects))
    assert rules == ["clustercolocationprofile", "resource-translation", "extended-resource-spec"]
    # What came of it comes of it again.
    assert admitted(handler, request(document)).document in (None, document)


def test_pods_of_a_generated_name_keep_what_they_drew() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    third = profile({"labels": {"drawn": "yes"}, "probability": "30%"})
    scene.put(third, profile({"labels": {"all": "yes"}}, "all"))
    scene.put_namespace()
    seen = set()
    for number in range(40):
        new = {**POD, "metadata": {"generateName": "web-", "labels": {"app": "web"}}}
        document = admitted(handler, request(new, uid=f"u{number}")).document
        assert document is not None
        # The API server calls it somehow, and whoever looks at it later finds the same.
        stored = {**document["metadata"], "name": f"web-{number}", "namespace": "d"}
        meta = codec.convert(stored, ObjectMeta, "Pod")
        taken = "drawn" in meta.labels
        seen.add(taken)
        assert set(json.loads(meta.annotations[keys.PROFILE_DRAWS])) == {"p"}
        assert selection.is_in_share(third, meta, 30) is taken
        # A second round under another uid changes nothing.
        assert admitted(handler, request(document, uid="other")) == ALLOWED
    assert seen == {True, False}


def test_without_the_label_nothing_changes() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile(COLOCATION), BATCH)
    scene.put_namespace()
    assert admitted(handler, request(POD)) == ALLOWED


@pytest.mark.parametrize(
    "asked",
    [
        request(POD, POD),
        request(POD, resource=ResourceName("", "pods", "status")),
        request(POD, resource=ResourceName("", "configmaps")),
        request(None, POD, operation=Operation.DELETE),
    ],
)
def test_other_requests_pass_unseen(asked: Any) -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile({"labels": {"a": "1"}}))
    assert admitted(handler, asked) == ALLOWED


def test_a_namespace_and_a_class_of_a_moment_ago_are_looked_up_once() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile(COLOCATION))
    namespace = Namespace(metadata=ObjectMeta(name="d", labels={"colocation": "on"}))
    scene.server.objects = {(Namespace, "d"): namespace, (PriorityClass, "koord-batch"): BATCH}

    async def many() -> list[Any]:
        return await asyncio.gather(*(handler.admit(request(POD)) for _ in range(5)))

    for decision in asyncio.run(many()):
        assert decision.document["spec"]["priority"] == 5500
    assert scene.server.asked == ["Namespace d", "PriorityClass koord-batch"]


def test_a_class_that_there_is_not_is_named_and_not_asked_for_again_at_once() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile({"priorityClassName": "gone"}))
    for _ in range(3):
        decision = admitted(handler, request(POD))
        assert (decision.allowed, decision.status) == (False, 500)
        assert decision.message == (
            "ClusterColocationProfile p: spec.priorityClassName: got 'gone', expected the name of "
            "a PriorityClass that there is"
        )
    assert scene.server.asked == ["PriorityClass gone"]
    scene.clock.advance(1.5)
    scene.server.objects[PriorityClass, "gone"] = BATCH
    assert admitted(handler, request(POD)).allowed


def test_a_server_that_does_not_answer_is_waited_for_a_second() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile(COLOCATION))
    scene.server.is_silent = True
    loop = VirtualLoop(VirtualClock())
    try:
        found = handler.admit(request(POD))
        decision = loop.run_until_complete(found)  # type: ignore[arg-type]
        assert loop.time() < 3
    finally:
        loop.close()
    # A namespace that is not known is not selected.
    assert decision == ALLOWED


def test_a_profile_that_cannot_be_used_is_told_once_and_the_pod_goes_through() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(
        profile({"probability": "many", "labels": {"bad": "1"}}, "a"),
        profile({"patch": {"spec": {"containers": "none"}}, "labels": {"bad": "1"}}, "b"),
        profile({"labels": {"good": "1"}}, "c"),
    )
    for _ in range(2):
        decision = admitted(handler, request(POD))
        assert decision.document is not None
        assert decision.document["metadata"]["labels"] == {"app": "web", "good": "1"}
        [warning] = decision.warnings
        assert warning.startswith("not applied: ClusterColocationProfile b: spec.patch")
    assert [event[:3] for event in scene.events] == [
        ("a", "Warning", "InvalidColocationProfile"), ("b", "Warning", "InvalidColocationProfile"),
    ]  # fmt: skip
    assert "spec.probability: got 'many'" in scene.events[0][3]


def test_a_profile_keeps_native_resources_even_of_pods_that_it_does_not_draw() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    keeping = profile({"probability": 0}, "keeps")
    keeping.metadata.annotations[keys.SKIP_UPDATE_RESOURCES] = ""
    scene.put(keeping, profile({"qosClass": "BE"}, "p"))
    found = admitted(handler, request(POD)).document
    assert found is not None
    assert found["spec"] == POD["spec"]


@pytest.mark.parametrize(
    ("gate", "left_out"),
    [
        ("ColocationProfileSkipMutatingResources", "resource-translation"),
        ("DisableExtendedResourceSpec", "extended-resource-spec"),
        ("DisableDeviceResourceSpec", "device-resource-spec"),
    ],
)
def test_gates_leave_rules_out(gate: str, left_out: str) -> None:
    requests = {"koordinator.sh/gpu": "50", "kubernetes.io/batch-cpu": "1", "memory": "1Gi"}
    pod = {
        "metadata": {},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
    }
    for gates in ((), (gate,)):
        scene = Scene(gates)
        handler = PodMutationHandler(scene.dependencies)
        scene.put(profile({"qosClass": "BE"}))
        rules = {effect.rule for effect in admitted(handler, request(pod)).effects}
        assert (left_out in rules) is not bool(gates)


@pytest.mark.parametrize("pod", [
    {"metadata": {"labels": ["a"]}, "spec": {}},
    {"spec": {"containers": [None]}},
    {"spec": {"containers": [{"resources": {"requests": {"cpu": {}}}}]}},
    {"spec": {"containers": [{"resources": {"requests": {"cpu": "1e99"}}}]}},
    {"metadata": {"annotations": {keys.EXTENDED_RESOURCE_SPEC: "["}}},
])  # fmt: skip
def test_a_pod_that_cannot_be_read_is_an_error_that_names_it(pod: Document) -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile({"qosClass": "BE"}))
    with pytest.raises(KoordError, match=r"^Pod d/p: "):
        admitted(handler, request(pod))


def test_nulls_stay_where_they_are() -> None:
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(profile({"qosClass": "BE", "schedulerName": "koord-scheduler"}), BATCH)
    pod = {
        "metadata": {"creationTimestamp": None, "labels": None, "annotations": None},
        "spec": {"containers": [{"name": "c", "resources": None}, {"name": "d", "resources": {
            "requests": None, "limits": {"cpu": "1", "memory": None}}}], "initContainers": None},
        "status": None,
    }  # fmt: skip
    found = admitted(handler, request(pod)).document
    assert found is not None
    assert found["metadata"]["creationTimestamp"] is None
    assert found["status"] is None
    assert found["spec"]["containers"][1]["resources"]["requests"] == {
        "kubernetes.io/batch-cpu": "1k"
    }


def tree(name: str, namespace: str, **annotations: str) -> ElasticQuota:
    meta = ObjectMeta(name=name, namespace=namespace, labels={keys.QUOTA_TREE_ID: "1"})
    meta.annotations = dict(annotations)
    return ElasticQuota(metadata=meta)


@pytest.mark.parametrize(
    ("quota", "labels", "options", "kept"),
    [
        (tree("q", "x"), {keys.QUOTA_NAME: "q"}, {}, True),
        (tree("d", "x"), {}, {}, True),
        (tree("q", "x", **{keys.QUOTA_NAMESPACES: '["d"]'}), {}, {}, True),
        (tree("q", "x"), {}, {}, False),
        (tree("q", "x"), {keys.QUOTA_NAME: "q"}, {"quota_scope": "namespace"}, False),
        (tree("q", "d"), {keys.QUOTA_NAME: "q"}, {"quota_scope": "namespace"}, True),
    ],
)
def test_pods_of_a_tree_are_kept_on_its_nodes(
    quota: ElasticQuota, labels: dict[str, str], options: dict[str, str], kept: bool
) -> None:
    scene = Scene(("MultiQuotaTree",), **options)
    handler = PodMutationHandler(scene.dependencies)
    scene.put(quota)
    for name in ("b", "a"):
        selector = LabelSelector(match_labels={"pool": name})
        meta = ObjectMeta(name=name, namespace="n", labels={keys.QUOTA_TREE_ID: "1"})
        spec = ElasticQuotaProfileSpec(quota_name=name, node_selector=selector)
        scene.put(ElasticQuotaProfile(metadata=meta, spec=spec))
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    decision = admitted(handler, request(pod))
    assert (decision.document is not None) is kept
    if decision.document is not None:
        assert '"pool"' in str(decision.document["spec"]["affinity"]).replace("'", '"')
        assert "['a']" in str(decision.document["spec"]["affinity"])


_AMOUNTS = st.dictionaries(
    st.sampled_from((
        "cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/mid-memory",
        "koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu.shared",
    )),
    st.sampled_from(("1", "500m", 2, "100", "200", "4Gi")),
    max_size=4,
)  # fmt: skip
_CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("ab"), "resources": st.fixed_dictionaries(
        {}, optional={"requests": _AMOUNTS, "limits": _AMOUNTS})}),
    max_size=2, unique_by=lambda each: each["name"],
)  # fmt: skip


@given(
    containers=_CONTAINERS,
    init=_CONTAINERS,
    overhead=_AMOUNTS,
    priority=st.sampled_from((None, 5500, 7500, 9500)),
    spec=st.fixed_dictionaries({}, optional={
        "labels": st.just({"a": "1"}), "labelSuffixes": st.just({"app": "-x"}),
        "qosClass": st.sampled_from(("BE", "LS")), "priorityClassName": st.just("koord-batch"),
        "labelKeysMapping": st.just({"app": "b"}),
        "patch": st.just({"spec": {"containers": [{"name": "a", "image": "i"}]}}),
    }),
)  # fmt: skip
def test_a_second_review_changes_nothing(
    containers: list[Document], init: list[Document], overhead: Document, priority: int | None,
    spec: Document,
) -> None:  # fmt: skip
    scene = Scene()
    handler = PodMutationHandler(scene.dependencies)
    scene.put(decode_as({
        "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
        "metadata": {"name": "p"}, "spec": spec,
    }, type(profile({}))), BATCH)  # fmt: skip
    pod: Document = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": containers, "initContainers": init, "overhead": overhead},
    }
    if priority is not None:
        pod["spec"]["priority"] = priority
    once = admitted(handler, request(pod)).document or pod
    assert (admitted(handler, request(once)).document or once) == once
