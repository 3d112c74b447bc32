# SPDX-License-Identifier: Apache-2.0
"""The policies that koord ships, on the embedded server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.plane import PODS, Api, pod, with_api

SHIPPED = Path(__file__).resolve().parents[3] / "deploy/policies/bound-pod-annotations.yaml"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
DECIDED = "scheduling.koordinator.sh/device-allocated"


def test_only_koord_changes_what_it_decided_about_a_bound_pod() -> None:
    async def check(api: Api) -> None:
        for manifest in yaml.safe_load_all(SHIPPED.read_text()):
            await api.made(f"{POLICIES}/{PLURALS[manifest['kind']]}", manifest)
        await api.made(PODS, pod())
        assert (await _annotated(api, DECIDED, "{}"))["code"] == 200
        target = {"kind": "Node", "name": "n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}}
        await api("POST", f"{PODS}/web/binding", {**binding, "target": target})
        refused = await _annotated(api, DECIDED, '{"a":1}')
        assert (refused["code"], refused["reason"]) == (403, "Forbidden")
        assert DECIDED in refused["message"]
        assert (await _annotated(api, "example.com/note", "x"))["code"] == 200

    with_api(check)


async def _annotated(api: Api, key: str, value: str) -> dict[str, Any]:
    found = await api("GET", f"{PODS}/web")
    del found["code"]
    found["metadata"].setdefault("annotations", {})[key] = value
    return await api("PUT", f"{PODS}/web", found)
