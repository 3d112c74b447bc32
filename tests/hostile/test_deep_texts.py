# SPDX-License-Identifier: Apache-2.0
"""JSON of twenty thousand levels where an object has a text: none, or one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.agent.host.devices.xpu import parse_xpus
from koord.api.protocol import keys, nodes
from koord.base.errors import KoordError
from koord.controllers.scheduler.explain.annotation_variants import _read
from tests.api.samples import make_node, make_pod
from tests.hostile.served import APPLY_PATCH, CONFIGS, MERGE_PATCH, Target, attack, config_map

# Annotations of an object may take 256 KiB.
LEVELS = 20_000
DEEP = ['{"a":' * LEVELS, "[" * LEVELS, '{"a":' * LEVELS + "1" + "}" * LEVELS]


@pytest.mark.parametrize("text", DEEP)
def test_what_a_node_had_is_refused_by_name(text: str) -> None:
    node = make_node(annotations={keys.ORIGIN_EXTENDED_ALLOCATABLE: text})
    with pytest.raises(KoordError, match="Node n1: annotations"):
        nodes.origin_allocatable(node)


@pytest.mark.parametrize("text", DEEP)
def test_explaining_a_pod_tries_no_variant_of_it(text: str) -> None:
    assert _read(make_pod(annotations={keys.RESOURCE_SPEC: text}), keys.RESOURCE_SPEC) is None


@pytest.mark.parametrize("text", DEEP)
def test_a_file_of_accelerators_is_refused_by_name(text: str) -> None:
    with pytest.raises(KoordError, match="cards: got"):
        parse_xpus(text.encode(), "cards")


@pytest.mark.parametrize("text", DEEP)
def test_what_kubectl_applied_last_is_nothing(text: str) -> None:
    """A server-side apply that conflicts reads it, to take over what kubectl applied before."""

    async def test(target: Target) -> None:
        made = config_map("a", {"b": "c"})
        note = {"kubectl.kubernetes.io/last-applied-configuration": text}
        made["metadata"]["annotations"] = note
        assert (await target.ask("POST", CONFIGS, made)).status == 201
        body = json.dumps(config_map("a", {"b": "d"})).encode()
        answer = await target.ask(
            "PATCH", f"{CONFIGS}/a", body, APPLY_PATCH, fieldManager="kubectl"
        )
        assert answer.status == 409, answer.body

    attack(test)


@pytest.mark.parametrize("element", ["v:", "k:"])
@pytest.mark.parametrize("text", DEEP)
def test_fields_of_a_manager_are_refused(element: str, text: str) -> None:
    async def test(target: Target) -> None:
        assert (await target.ask("POST", CONFIGS, config_map("a"))).status == 201
        fields: dict[str, Any] = {"f:data": {element + text: {}}}
        entry = {
            "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }  # fmt: skip
        body = {"metadata": {"managedFields": [entry]}}
        answer = await target.ask("PATCH", f"{CONFIGS}/a", body, MERGE_PATCH)
        assert answer.status < 500, answer.body
        assert (await target.ask("GET", f"{CONFIGS}/a")).status == 200

    attack(test)


def test_the_deep_text_is_too_deep_for_the_decoder() -> None:
    """Else the tests above would show nothing."""
    with pytest.raises(RecursionError):
        json.loads(DEEP[1])
