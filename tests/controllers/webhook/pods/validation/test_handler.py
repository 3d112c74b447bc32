# SPDX-License-Identifier: Apache-2.0
"""Reviews that may refuse a pod: the examples of the reference, gates, what is only warned of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from koord.api.kinds.cluster import ConfigMap, Namespace
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys
from koord.controllers.webhook.framework.admission_decision import ALLOWED
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.pods.validation.handler import PodValidationHandler
from koord.kernels.quantity import Quantity
from tests.controllers.webhook.pods.scene import Scene, admitted, request

Document = dict[str, Any]
QOS, CLASS, PRIORITY = keys.QOS_CLASS, keys.PRIORITY_CLASS, keys.PRIORITY


def pod(labels: dict[str, str] | None = None, priority: int | None = None, **more: Any) -> Document:
    requests = more.pop("requests", {})
    found: Document = {
        "metadata": {"name": "p", "labels": labels or {}, **more},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}]
        },
    }
    if priority is not None:
        found["spec"]["priority"] = priority
    return found


def refused(document: Document, old: Document | None = None, gates: tuple[str, ...] = ()) -> str:
    """What is said against a pod; empty if nothing is."""
    scene = Scene(gates)
    handler = PodValidationHandler(scene.dependencies)
    decision = admitted(handler, request(document, old))
    assert decision.status == (200 if decision.allowed else 403)
    return decision.message


BATCH = {"kubernetes.io/batch-cpu": "1000"}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (pod(), ""),
        (pod({QOS: "BE"}, 5500, requests=BATCH), ""),
        (pod({QOS: "BE"}, 7500), ""),
        (pod({QOS: "BE"}, 3500), ""),
        (pod({QOS: "BE"}, 9500), "'BE with koord-prod'"),
        (pod({QOS: "BE"}), "'BE without a priority class'"),
        (pod({QOS: "BE"}, 5500, annotations={keys.RESERVE_POD: ""}), "annotations[scheduling"),
        (pod({QOS: "LS"}, 9500, requests=BATCH), "got 'LS', expected BE"),
        (pod(requests=BATCH), "got None, expected BE"),
        (pod({QOS: "LSR"}, 9500, requests={"cpu": "2"}), ""),
        (
            pod({QOS: "LSR"}, 9500, requests={"cpu": "1500m"}),
            "got '1500m', expected a whole number",
        ),
        (pod({QOS: "LSR"}, 9500), "got None, expected a whole number"),
        (pod({QOS: "LSR"}, requests={"cpu": "2"}), "LSR without a priority class"),
        (pod({QOS: "LSR", CLASS: "koord-mid"}, 9500, requests={"cpu": "2"}), "LSR with koord-mid"),
        (pod({QOS: "LSE"}, 5500, requests={"cpu": "2"}), ""),
        (pod({QOS: "LSE"}, 5500), "whole number of CPUs, which QoS class LSE needs"),
        (pod({QOS: "LS"}, 5500), ""),
        (pod({QOS: "SYSTEM"}, 3500), ""),
        (pod({QOS: "lse"}, 100), ""),
        (pod(requests={"kubernetes.io/mid-cpu": "1"}), ""),
    ],
)
def test_classes_and_resources_of_new_pods(document: Document, said: str) -> None:
    found = refused(document)
    assert said in found
    assert bool(said) == bool(found)


def test_all_that_is_wrong_by_one_rule_is_told() -> None:
    found = refused(pod({QOS: "LSR"}, 5500, requests={**BATCH, "cpu": "100m"}))
    assert found.count("Pod d/p: ") == 3


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (({}, 5100), ({}, 5200), ""),
        (
            ({}, 5100),
            ({}, 7100),
            "spec.priority: got 'koord-mid', expected 'koord-batch' as before",
        ),
        (({QOS: "BE"}, 5100), ({QOS: "LS"}, 5100), "got 'LS', expected 'BE' as before"),
        (({}, 5100), ({QOS: "LS"}, 5100), "got 'LS', expected none as before"),
        (({QOS: "LS"}, 5100), ({}, 5100), "got None, expected 'LS' as before"),
        (({QOS: "x"}, None), ({QOS: "y"}, None), ""),
        (({PRIORITY: "1"}, None), ({PRIORITY: "2"}, None), "labels[koordinator.sh/priority]"),
        (({PRIORITY: "1"}, None), ({}, None), "labels[koordinator.sh/priority]"),
        (({CLASS: "koord-prod"}, 5100), ({CLASS: "x"}, 5100), "got None, expected 'koord-prod'"),
        (({keys.QUOTA_PREEMPTIBLE: "false"}, None), ({}, None), "/preemptible]: got None"),
    ],
)
def test_classes_are_fixed(before: Any, now: Any, said: str) -> None:
    found = refused(pod(*now), pod(*before))
    assert said in found
    assert bool(said) == bool(found)


def test_the_sub_priority_may_change_with_its_gate() -> None:
    gates = ("ColocationProfileSkipValidatingPriority",)
    assert refused(pod({PRIORITY: "2"}), pod({PRIORITY: "1"}), gates) == ""


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ({"koordinator.sh/gpu": "100", "koordinator.sh/gpu.shared": "1"}, "not both"),
        ({"koordinator.sh/gpu": "150"}, "whole cards in hundreds"),
        ({"koordinator.sh/gpu": "50"}, ""),
        ({"koordinator.sh/gpu": "0"}, "1 to 100 percent"),
        ({"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory-ratio": "100"}, ""),
        ({"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory-ratio": "75"}, "a multiple"),
        ({"koordinator.sh/gpu.shared": "1", "huawei.com/npu-core": "4"}, ""),
        ({"koordinator.sh/gpu.shared": "1"}, "one of koordinator.sh/gpu-memory"),
    ],
)  # fmt: skip
def test_device_resources_with_their_gate(requests: Document, said: str) -> None:
    assert refused(pod(requests=requests)) == ""
    found = refused(pod(requests=requests), gates=("ValidatePodDeviceResource",))
    assert said in found
    assert bool(said) == bool(found)


def quota(name: str, namespace: str = "n", *, parent: bool = False, **more: Any) -> ElasticQuota:
    meta = ObjectMeta(name=name, namespace=namespace, **more)
    if parent:
        meta.labels = {keys.QUOTA_IS_PARENT: "true"}
    return ElasticQuota(metadata=meta)


BOUND = {keys.QUOTA_NAMESPACES: '["d", "e"]'}


@pytest.mark.parametrize(
    ("quotas", "labels", "gates", "said"),
    [
        (
            [quota("q", parent=True)],
            {keys.QUOTA_NAME: "q"},
            (),
            "got 'q', expected a quota without",
        ),
        ([quota("q")], {keys.QUOTA_NAME: "q"}, (), ""),
        ([quota("q", parent=True)], {keys.QUOTA_NAME: "unknown"}, (), ""),
        ([quota("d", "d", parent=True)], {}, (), "got 'd'"),
        ([quota("d", "other", parent=True)], {}, (), ""),
        ([quota("q", parent=True, annotations=BOUND)], {}, (), "got 'q'"),
        ([quota("q", parent=True, annotations=BOUND)], {}, ("DisableDefaultQuota",), ""),
        ([quota("koordinator-default-quota", parent=True)], {}, (), ""),
        ([quota("q", parent=True)], {keys.QUOTA_NAME: "q"}, ("SupportParentQuotaSubmitPod",), ""),
    ],
)
def test_pods_do_not_use_quotas_with_children(
    quotas: list[ElasticQuota], labels: dict[str, str], gates: tuple[str, ...], said: str
) -> None:
    scene = Scene(gates)
    handler = PodValidationHandler(scene.dependencies)
    scene.put(*quotas)
    decision = admitted(handler, request(pod(labels)))
    assert said in decision.message
    assert decision.allowed is not bool(said)


def test_quotas_that_change_and_go_are_followed() -> None:
    scene = Scene()
    handler = PodValidationHandler(scene.dependencies)
    asked = request(pod())
    scene.put(quota("q", parent=True, annotations=BOUND))
    assert not admitted(handler, asked).allowed
    scene.put(quota("q", parent=True))
    assert admitted(handler, asked).allowed
    scene.put(quota("q", parent=True, annotations=BOUND))
    scene.views.view(ElasticQuota).remove("n/q")
    assert admitted(handler, asked).allowed


def rules(enable: str, given: Any) -> ConfigMap:
    text = given if isinstance(given, str) else json.dumps(given)
    meta = ObjectMeta(name="pod-enhanced-validator-config", namespace="koordinator-system")
    return ConfigMap(metadata=meta, data={"enable": enable, "rules": text})


def test_labels_that_an_operator_wants() -> None:
    scene = Scene(("EnablePodEnhancedValidator",))
    handler = PodValidationHandler(scene.dependencies)
    wanted = [
        {"name": "team", "requiredLabels": ["team"], "namespaceWhitelist": ["d"]},
        {"name": "app", "requiredLabels": ["app", "tier"]},
    ]

    def said(labels: dict[str, str]) -> str:
        return admitted(handler, request(pod(labels))).message

    assert said({}) == ""
    scene.put(rules(" True ", wanted))
    assert said({}) == (
        "Pod d/p: labels: got None, expected what rule 'app' of pod validation wants: app, tier"
    )
    assert said({"app": "", "tier": ""}) == ""
    assert said({"pod.koordinator.sh/skip-enhanced-validation": "true"}) == ""
    scene.put(rules("true", "["))
    assert "app, tier" in said({})
    assert [event[:3] for event in scene.events] == [
        ("pod-enhanced-validator-config", "Warning", "InvalidPodValidation")
    ]
    scene.put(rules("yes", wanted))
    assert said({}) == ""
    scene.put(rules("true", wanted))
    scene.views.view(ConfigMap).remove("koordinator-system/pod-enhanced-validator-config")
    assert said({}) == ""


def test_another_config_map_and_a_gate_that_is_off_do_not_count() -> None:
    for gates, name in ((("EnablePodEnhancedValidator",), "other"), ((), None)):
        scene = Scene(gates)
        handler = PodValidationHandler(scene.dependencies)
        found = rules("true", [{"requiredLabels": ["x"]}])
        found.metadata.name = name or found.metadata.name
        scene.put(found)
        assert admitted(handler, request(pod())).allowed


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (pod({keys.QUOTA_NAME: "none"}), "expected the name of an ElasticQuota"),
        (pod({QOS: "be"}), "expected LSE, LSR, LS, BE or SYSTEM"),
        (pod(annotations={keys.GANG_NAME: "g", keys.GANG_MIN_AVAILABLE: "many"}), "min-available"),
        (
            pod(
                annotations={keys.GANG_NAME: "g", keys.GANG_MIN_AVAILABLE: "2", keys.GANG_MODE: "x"}
            ),
            "Strict",
        ),
        (pod(annotations={keys.RESERVATION_AFFINITY: "{"}), "reservation-affinity"),
        (pod({QOS: "BE"}, 5500, requests={"cpu": "1"}), "expected kubernetes.io/batch-cpu"),
    ],
)
def test_what_will_not_do_what_it_says_is_warned_of(document: Document, said: str) -> None:
    scene = Scene()
    decision = admitted(PodValidationHandler(scene.dependencies), request(document))
    assert decision.allowed
    assert any(said in warning for warning in decision.warnings)


def test_there_are_not_more_warnings_than_an_api_server_passes_on() -> None:
    containers = [{"name": f"c{i}", "resources": {"requests": {"cpu": "1"}}} for i in range(40)]
    document = pod({QOS: "BE"}, 5500)
    document["spec"]["containers"] = containers
    found = admitted(PodValidationHandler(Scene().dependencies), request(document)).warnings
    assert len(found) == 11
    assert found[-1] == "and more"


def test_a_quota_out_of_reach_does_not_count_and_that_is_said() -> None:
    scene = Scene(quota_scope="namespace")
    handler = PodValidationHandler(scene.dependencies)
    scene.put(quota("q", parent=True), quota("all", parent=True, annotations=BOUND))
    scene.put(Namespace(metadata=ObjectMeta(name="d")))
    asked = request(pod({keys.QUOTA_NAME: "q"}))
    decision = admitted(handler, asked)
    assert decision.allowed
    assert "expected a quota that reaches namespace d" in decision.warnings[0]
    scene.put(Namespace(metadata=ObjectMeta(name="d", annotations={keys.QUOTAS_FROM: "n"})))
    assert not admitted(handler, asked).allowed


def bound(node: str = "n1", **annotations: str) -> Document:
    found = pod(annotations=annotations)
    found["spec"]["nodeName"] = node
    return found


@pytest.mark.parametrize("key", [
    "node.koordinator.sh/extended-resource-spec", "scheduling.koordinator.sh/device-allocated",
    "scheduling.koordinator.sh/reservation-allocated", "scheduling.koordinator.sh/resource-status",
])  # fmt: skip
def test_a_change_of_what_koord_wrote_on_a_bound_pod_is_warned_of(key: str) -> None:
    handler = PodValidationHandler(Scene().dependencies)
    before, after = bound(**{key: "{}"}), bound()
    [warning] = admitted(handler, request(after, before)).warnings
    assert f"annotations[{key}]: got None" in warning
    account = "system:serviceaccount:koordinator-system:koord-scheduler"
    assert admitted(handler, request(after, before, username=account)) == ALLOWED
    assert admitted(handler, request(bound("", **{key: "1"}), bound(""))) == ALLOWED


def test_other_requests_pass_unseen() -> None:
    handler = PodValidationHandler(Scene().dependencies)
    wrong = pod({QOS: "BE"})
    for asked in (
        request(None, wrong, operation=Operation.DELETE),
        request(wrong, resource=ResourceName("", "pods", "binding")),
        request(wrong, resource=ResourceName("", "services")),
    ):
        assert admitted(handler, asked) == ALLOWED


def test_a_pod_is_charged_last_so_that_what_is_refused_costs_nothing() -> None:
    scene = Scene(("EnableQuotaAdmission",))
    handler = PodValidationHandler(scene.dependencies)
    known = quota("q", "n")
    known.spec.max = {"cpu": Quantity.parse("1")}
    scene.put(known)
    charged = pod({keys.QUOTA_NAME: "q"}, requests={"cpu": "2"})
    decision = admitted(handler, replace(request(charged), dry_run=True))
    assert not decision.allowed
    assert decision.message.startswith("exceeded quota: n/q, requested: cpu=2")
    assert [effect.rule for effect in decision.effects] == ["quota-admission"]
    charged["metadata"]["labels"][QOS] = "BE"
    decision = admitted(handler, request(charged))
    assert [effect.rule for effect in decision.effects] == ["qos-class-priority-and-resources"]
    assert scene.server.asked == []
