# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks, called for real: they change, refuse, warn, fail."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.documents import config_map, document, pod
from tests.contract.extensions.webhook_server import WebhookServer

WAIT_SECONDS = 90.0
_numbers = itertools.count(1)

Register = Callable[..., None]

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
NAMED_B = {"name": "named-b", "expression": "object.metadata.name == 'b'"}
CONFIGURATIONS = {
    MUTATING: ("MutatingWebhookConfiguration", "label"),
    VALIDATING: ("ValidatingWebhookConfiguration", "allow"),
}


@pytest.fixture(scope="module")
def webhooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with WebhookServer(tmp_path_factory.mktemp("webhooks")) as server:
        yield server


@pytest.fixture
def register(api: Api, namespace: str, webhooks: WebhookServer) -> Iterator[Register]:
    """Registers webhooks for the test's namespace, and waits until they are called."""
    made: list[str] = []
    webhooks.requests.clear()

    def make(plural: str, *hooks: Document) -> None:
        kind, verb = CONFIGURATIONS[plural]
        name = f"contract-{next(_numbers)}"
        probed = {"objectSelector": {"matchLabels": {"probe": "yes"}}, "path": f"/{verb}/{name}"}
        whole = [usual(hook, n, namespace) for n, hook in enumerate((*hooks, probed))]
        for hook in whole:
            path = hook.pop("path", "")
            hook.setdefault("clientConfig", webhooks.client(path))
        body = document("admissionregistration.k8s.io/v1", kind, name, webhooks=whole)
        api.post(at(plural), body).ok["metadata"]
        made.append(at(plural, name=name))
        wait_called(name)

    def wait_called(name: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        probe = config_map("probe", labels={"probe": "yes"})
        while not any(path.endswith(name) for path, _ in webhooks.requests):
            assert time.monotonic() < deadline
            api.post(at("configmaps", namespace), probe, dryRun="All")
            time.sleep(0.02)
        webhooks.requests.clear()

    yield make
    for path in made:
        api.delete(path)


def usual(hook: Document, number: int, namespace: str) -> Document:
    """A webhook with the fields that it must have; not called for the probe."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["configmaps"],
    }
    return {
        "name": f"n{number}.contract.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchExpressions": [{"key": "probe", "operator": "DoesNotExist"}]},
        **hook,
    }


def test_a_webhook_changes_what_is_stored(api: Api, namespace: str, register: Register) -> None:
    register(MUTATING, {"path": "/label/one"})
    made = api.post(at("configmaps", namespace), config_map("a")).ok
    assert made["metadata"]["labels"] == {"one": "set"}
    assert api.get(at("configmaps", namespace, "a")).document == made


def test_what_a_webhook_is_told(
    api: Api, namespace: str, register: Register, webhooks: WebhookServer
) -> None:
    register(VALIDATING, {"path": "/allow"})
    path = at("configmaps", namespace, "a")
    made = api.post(at("configmaps", namespace), config_map("a", data={"k": "1"})).ok
    api.patch(path, {"data": {"k": "2"}}, dryRun="All", fieldManager="me").ok["metadata"]
    api.delete(path)
    create, update, delete = webhooks.called("/allow")
    assert create["operation"] == "CREATE"
    assert create["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert create["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (create["name"], create["namespace"], create["dryRun"]) == ("a", namespace, False)
    assert create["object"]["data"] == {"k": "1"}
    assert create["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert create["oldObject"] is None
    assert create["options"]["kind"] == "CreateOptions"
    assert "system:masters" in create["userInfo"]["groups"]
    assert create["uid"] != update["uid"]
    assert (update["operation"], update["dryRun"]) == ("UPDATE", True)
    assert update["options"] == {
        "kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
        "fieldManager": "me",
    }  # fmt: skip
    assert (update["object"]["data"], update["oldObject"]["data"]) == ({"k": "2"}, {"k": "1"})
    assert (delete["operation"], delete["object"]) == ("DELETE", None)
    assert delete["oldObject"]["data"] == {"k": "1"}


@pytest.mark.parametrize("named", [True, False])
def test_what_a_mutating_webhook_knows_of_a_new_object(
    api: Api, namespace: str, register: Register, webhooks: WebhookServer, named: bool
) -> None:
    """Neither a uid, nor a name that is to be generated; each review has a uid of its own."""
    register(MUTATING, {"path": "/label/one"}, {"path": "/label/two"})
    body = config_map("a")
    if not named:
        body["metadata"]["generateName"] = body["metadata"].pop("name") + "-"
    made = api.post(at("configmaps", namespace), body).ok["metadata"]
    first, second = webhooks.called("/label/one")[0], webhooks.called("/label/two")[0]
    seen = [first["object"]["metadata"], second["object"]["metadata"]]
    told = [(each.get("uid", ""), each.get("name", "")) for each in seen]
    assert told == [("", "a" if named else "")] * 2
    assert [first.get("name", ""), second.get("name", "")] == ["a" if named else ""] * 2
    assert made["uid"]
    assert first["uid"] != second["uid"]


def test_an_apply_is_told_as_what_it_leads_to(
    api: Api, namespace: str, register: Register, webhooks: WebhookServer
) -> None:
    register(VALIDATING, {"path": "/allow"})
    path = at("configmaps", namespace, "a")
    for value in ("1", "2"):
        api.apply(path, config_map("a", data={"k": value}), "me", force=True).ok["metadata"]
    told = [(request["operation"], request["options"]) for request in webhooks.called("/allow")]
    common = {"apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert told == [
        ("CREATE", {"kind": "CreateOptions", **common}),
        ("UPDATE", {"kind": "UpdateOptions", **common}),
    ]


def test_a_webhook_refuses(api: Api, namespace: str, register: Register) -> None:
    register(VALIDATING, {"path": "/deny"})
    answer = api.post(at("configmaps", namespace), config_map("a"))
    message = 'admission webhook "n0.contract.test" denied the request: not on my watch'
    assert (answer.code, answer.document["message"]) == (418, message)
    assert api.get(at("configmaps", namespace, "a")).code == 404


def test_a_webhook_warns(api: Api, namespace: str, register: Register) -> None:
    register(VALIDATING, {"path": "/warn"})
    answer = api.post(at("configmaps", namespace), config_map("a"))
    assert (answer.code, answer.warnings) == (201, ["think again"])


DOWN = {"url": "https://127.0.0.1:9/down"}
# The answer takes 2.5 s.
SLOW = {"path": "/slow", "timeoutSeconds": 1}


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ({"clientConfig": DOWN}, "failed to call webhook: Post "),
        (SLOW, "failed to call webhook: Post "),
        ({"path": "/broken"}, "failed to call webhook: an error on the server "),
    ],
    ids=["down", "slow", "broken"],
)
@pytest.mark.parametrize("plural", [MUTATING, VALIDATING])
def test_a_webhook_that_fails(
    api: Api, namespace: str, register: Register, plural: str, hook: Document, message: str
) -> None:
    register(plural, {**hook, "failurePolicy": "Fail"})
    answer = api.post(at("configmaps", namespace), config_map("a"))
    code, reason, told = answer.refusal
    assert (code, reason) == (500, "InternalError")
    assert told.startswith(
        f'Internal error occurred: failed calling webhook "n0.contract.test": {message}'
    )


@pytest.mark.parametrize("hook", [{"clientConfig": DOWN}, SLOW, {"path": "/broken"}])
def test_a_failure_that_is_ignored(
    api: Api, namespace: str, register: Register, hook: Document
) -> None:
    register(MUTATING, {**hook, "failurePolicy": "Ignore"}, {"path": "/label/two"})
    made = api.post(at("configmaps", namespace), config_map("a")).ok
    assert made["metadata"]["labels"] == {"two": "set"}


def test_the_order_of_webhooks(api: Api, namespace: str, register: Register) -> None:
    """Within a configuration as listed, configurations by name."""
    register(MUTATING, {"path": "/append/1"}, {"path": "/append/2"})
    register(MUTATING, {"path": "/append/3"})
    made = api.post(at("configmaps", namespace), config_map("a")).ok
    assert made["metadata"]["annotations"] == {"order": "123"}


def test_a_webhook_may_be_called_again(api: Api, namespace: str, register: Register) -> None:
    first: Document = {"path": "/append/1", "reinvocationPolicy": "IfNeeded"}
    register(MUTATING, first, {"path": "/append/2"})
    made = api.post(at("configmaps", namespace), config_map("a")).ok
    assert made["metadata"]["annotations"] == {"order": "121"}


def test_validation_sees_what_was_changed(
    api: Api, namespace: str, register: Register, webhooks: WebhookServer
) -> None:
    register(MUTATING, {"path": "/label/one"})
    register(VALIDATING, {"path": "/allow"})
    api.post(at("configmaps", namespace), config_map("a")).ok["metadata"]
    (seen,) = webhooks.called("/allow")
    assert seen["object"]["metadata"]["labels"] == {"one": "set"}


@pytest.mark.parametrize(
    ("hook", "called"),
    [
        ({"objectSelector": {"matchLabels": {"k": "v"}}}, True),
        ({"objectSelector": {"matchLabels": {"k": "w"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, False),
        ({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
                     "resources": ["*"]}]}, True),
        ({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                     "resources": ["configmaps"]}]}, False),
        ({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                     "resources": ["configmaps"], "scope": "Cluster"}]}, False),
        ({"matchConditions": [NAMED_B]}, False),
    ],
    ids=["object", "other object", "namespace", "any", "operation", "scope", "condition"],
)  # fmt: skip
def test_which_requests_a_webhook_gets(
    api: Api,
    namespace: str,
    register: Register,
    webhooks: WebhookServer,
    hook: dict[str, Any],
    called: bool,
) -> None:
    register(VALIDATING, {"path": "/allow", **hook})
    api.post(at("configmaps", namespace), config_map("a", labels={"k": "v"})).ok["metadata"]
    assert len(webhooks.called("/allow")) == called


def test_subresources_have_rules_of_their_own(
    api: Api, namespace: str, register: Register, webhooks: WebhookServer
) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"]}
    register(
        VALIDATING,
        {"path": "/allow", "rules": [{**rule, "resources": ["pods/status", "pods/binding"]}]},
    )
    api.post(at("pods", namespace), pod("a")).ok["metadata"]
    api.patch(at("pods", namespace, "a", "status"), {"status": {"reason": "x"}}).ok["metadata"]
    binding = {**document("v1", "Binding", "a"), "target": {"kind": "Node", "name": "one"}}
    assert api.post(at("pods", namespace, "a", "binding"), binding).code == 201
    called = [
        (request["operation"], request["subResource"]) for request in webhooks.called("/allow")
    ]
    assert called == [("UPDATE", "status"), ("CREATE", "binding")]


def test_an_eviction_asks(
    api: Api, namespace: str, register: Register, webhooks: WebhookServer
) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    register(VALIDATING, {"path": "/deny", "rules": [{**rule, "resources": ["pods/eviction"]}]})
    api.post(at("pods", namespace), pod("a", nodeName="one")).ok["metadata"]
    answer = api.post(
        at("pods", namespace, "a", "eviction"), document("policy/v1", "Eviction", "a")
    )
    assert answer.code == 418
    assert "deletionTimestamp" not in api.get(at("pods", namespace, "a")).ok["metadata"]
