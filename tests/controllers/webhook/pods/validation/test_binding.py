# SPDX-License-Identifier: Apache-2.0
"""Who may bind pods: the rules of the reference in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod
from koord.controllers.webhook.framework.admission_request import ResourceName
from koord.controllers.webhook.pods.validation.binding import (
    BindingHandler,
    BindingRules,
    BindingVerdict,
)
from tests.controllers.webhook.pods.scene import Scene, admitted, request

GATE = ("BindingAdmissionWebhook",)
NAMED = {"binding_admission_user_name": " koord-scheduler, other ,"}
STRICT: dict[str, Any] = {**NAMED, "binding_admission_namespaces": "*"}
KOORD = "system:serviceaccount:koordinator-system:koord-scheduler"
LABEL = "koordinator.sh/binding-admission-bypass"


def asked(username: str) -> Any:
    found = request({}, resource=ResourceName("", "pods", "binding"), username=username)
    return replace(found, name="p", namespace="d")


@pytest.mark.parametrize(
    ("options", "username", "meta", "verdict"),
    [
        ({"binding_admission_namespaces": "*"}, "x", {}, BindingVerdict.OFF),
        ({**STRICT, "binding_admission_user_name": " , "}, "x", {}, BindingVerdict.OFF),
        (STRICT, KOORD, {}, BindingVerdict.USER_NAME),
        ({**STRICT, "binding_admission_exclude_namespaces": "d"}, "x", {}, BindingVerdict.EXCLUDED),
        (NAMED, "x", {}, BindingVerdict.OUT_OF_SCOPE),
        ({**NAMED, "binding_admission_namespaces": "e"}, "x", {}, BindingVerdict.OUT_OF_SCOPE),
        ({**NAMED, "binding_admission_namespaces": "e, d"}, "x", {}, BindingVerdict.DENIED),
        (STRICT, "x", None, BindingVerdict.UNKNOWN_POD),
        (STRICT, "x", {"labels": {LABEL: ""}}, BindingVerdict.LABEL),
        (STRICT, "x", {"annotations": {LABEL: ""}}, BindingVerdict.DENIED),
        ({**STRICT, "binding_admission_bypass_annotations": "a"}, "x", {"annotations": {"a": "0"}},
         BindingVerdict.ANNOTATION),
        ({**STRICT, "binding_admission_dry_run": True}, "x", {}, BindingVerdict.DRY_RUN),
        (STRICT, "x", {}, BindingVerdict.DENIED),
    ],
)  # fmt: skip
def test_what_applies_first_decides(
    options: dict[str, Any], username: str, meta: Any, verdict: BindingVerdict
) -> None:
    scene = Scene(GATE, **options)
    handler = BindingHandler(scene.dependencies)
    pod = None if meta is None else Pod(metadata=ObjectMeta(name="p", namespace="d", **meta))
    if pod is not None:
        scene.put(pod)
    assert BindingRules.of(scene.dependencies.options).verdict(username, "d", pod) is verdict
    decision = admitted(handler, asked(username))
    assert decision.allowed is (verdict is not BindingVerdict.DENIED)
    if not decision.allowed:
        assert decision.message == (
            "Pod d/p: user: got 'x', expected one with koord-scheduler or other in the name to "
            "bind it"
        )


def test_without_the_gate_everybody_binds() -> None:
    scene = Scene((), **STRICT)
    handler = BindingHandler(scene.dependencies)
    scene.put(Pod(metadata=ObjectMeta(name="p", namespace="d")))
    assert admitted(handler, asked("x")).allowed


def test_decisions_are_counted_by_what_decided() -> None:
    scene = Scene(GATE, **STRICT)
    handler = BindingHandler(scene.dependencies)
    scene.put(Pod(metadata=ObjectMeta(name="p", namespace="d")))
    for username in ("x", "x", KOORD):
        admitted(handler, asked(username))
    name = "koord_manager_webhook_binding_admission_decisions_total"
    exposed = scene.dependencies.metrics.expose().decode().splitlines()
    assert sorted(line for line in exposed if line.startswith(f"{name}{{")) == [
        f'{name}{{decision="allowed_username"}} 1.0', f'{name}{{decision="denied"}} 2.0',
    ]  # fmt: skip
