# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents: everything in them leads somewhere, and both forms of version 2 agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from koord.controlplane.resource import Resource
from koord.controlplane.schema import core_schema, crd_schema
from koord.controlplane.schema.openapi_documents.documents import OpenApi
from tests.contract.recording import custom_definition

Document = dict[str, Any]
RESOURCES = [
    Resource("", "v1", "Pod", "pods", True, core_schema("", "v1", "Pod"),
             subresources=("status", "binding", "eviction")),
    Resource("", "v1", "Node", "nodes", False, core_schema("", "v1", "Node")),
    Resource("apps", "v1", "Deployment", "deployments", True,
             core_schema("apps", "v1", "Deployment"), subresources=("status", "scale")),
    Resource("contract.koord.dev", "v1", "Thing", "things", True,
             crd_schema(custom_definition(), "v1"), subresources=("status",)),
]  # fmt: skip
API = OpenApi(RESOURCES)
PATHS = ["api/v1", "apis/apps/v1", "apis/contract.koord.dev/v1"]
V2 = json.loads(API.v2)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def v3(path: str) -> Document:
    body = API.v3(path)
    assert body is not None
    document: Document = json.loads(body)
    return document


@pytest.mark.parametrize("path", PATHS)
def test_every_reference_of_version_3_leads_somewhere(path: str) -> None:
    document = v3(path)
    found = set(references(document))
    assert len(found) > 5
    for reference in found:
        *place, name = reference.removeprefix("#/").split("/")
        assert place == ["components", "schemas"]
        assert name in document["components"]["schemas"]


def test_every_reference_of_version_2_leads_somewhere() -> None:
    found = set(references(V2))
    assert len(found) > 100
    assert {each.removeprefix("#/definitions/") for each in found} <= V2["definitions"].keys()


def test_the_index_names_each_document_and_its_hash() -> None:
    index = json.loads(API.index)["paths"]
    assert sorted(index) == PATHS
    for path, entry in index.items():
        assert entry["serverRelativeURL"] == f"/openapi/v3/{path}?hash={API.hash(path)}"
    assert OpenApi(RESOURCES[:2]).hash("api/v1") != API.hash("apis/apps/v1")
    assert OpenApi(RESOURCES[:1]).hash("api/v1") != API.hash("api/v1")
    assert API.v3("apis/nope/v1") is None
    with pytest.raises(KeyError):
        API.hash("apis/nope/v1")


@pytest.mark.parametrize("document", [*map(v3, PATHS), V2], ids=[*PATHS, "v2"])
def test_clients_find_kinds_and_field_validation(document: Document) -> None:
    writes = 0
    for item in document["paths"].values():
        for method, operation in item.items():
            if method == "parameters":
                continue
            assert operation["x-kubernetes-group-version-kind"]["kind"]
            if method in ("post", "put", "patch"):
                names = [parameter["name"] for parameter in operation["parameters"]]
                assert "fieldValidation" in names
                writes += 1
    assert writes > 3


def test_merge_rules_and_list_types_are_told() -> None:
    spec = V2["definitions"]["io.k8s.api.core.v1.PodSpec"]
    containers = spec["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-list-type"] == "map"
    assert spec["required"] == ["containers"]
    kinds = V2["definitions"]["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"]
    assert kinds == [{"group": "", "version": "v1", "kind": "Pod"}]


def test_a_custom_resource_is_described_as_its_definition_has_it() -> None:
    thing = v3("apis/contract.koord.dev/v1")["components"]["schemas"]["dev.koord.contract.v1.Thing"]
    version = custom_definition()["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    assert thing["properties"]["spec"] == schema["properties"]["spec"]
    plain = V2["definitions"]["dev.koord.contract.v1.Thing"]["properties"]["spec"]["properties"]
    assert plain.keys() == schema["properties"]["spec"]["properties"].keys()
    assert "oneOf" not in json.dumps(plain)


# Protobuf, read back by wire format alone: field number to the payloads in order.


def fields(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    position = 0
    while position < len(data):
        tag, position = varint(data, position)
        kind = tag & 7
        value: Any
        if kind == 2:
            length, position = varint(data, position)
            value, position = data[position : position + length], position + length
            assert len(value) == length
        elif kind == 1:
            value, position = data[position : position + 8], position + 8
        else:
            assert kind == 0
            value, position = varint(data, position)
        found.setdefault(tag >> 3, []).append(value)
    return found


def varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position


def pairs(entries: list[bytes]) -> dict[str, dict[int, list[Any]]]:
    """Repeated pairs of a name and a message."""
    read = [fields(entry) for entry in entries]
    return {pair[1][0].decode(): fields(pair[2][0]) for pair in read}


def schema(message: dict[int, list[Any]]) -> Document:
    """What our documents say in schemas, out of gnostic's ``Schema``."""
    read: Document = {}
    for number, key in ((1, "$ref"), (2, "format"), (4, "description"), (13, "pattern")):
        if number in message:
            read[key] = message[number][0].decode()
    for number, key in ((11, "maxLength"), (12, "minLength"), (14, "maxItems"), (15, "minItems")):
        if number in message:
            read[key] = message[number][0]
    if 5 in message:
        read["default"] = json.loads(fields(message[5][0])[2][0])
    if 19 in message:
        read["required"] = [each.decode() for each in message[19]]
    if 20 in message:
        read["enum"] = [json.loads(fields(each)[2][0]) for each in message[20]]
    if 21 in message:
        read["additionalProperties"] = schema(fields(fields(message[21][0])[1][0]))
    if 22 in message:
        read["type"] = fields(message[22][0])[1][0].decode()
    if 23 in message:
        read["items"] = schema(fields(fields(message[23][0])[1][0]))
    if 25 in message:
        inner = pairs(fields(message[25][0])[1])
        read["properties"] = {name: schema(each) for name, each in inner.items()}
    for name, value in pairs(message.get(31, [])).items():
        read[name] = json.loads(value[2][0])
    return read


def test_protobuf_says_what_json_says() -> None:
    document = fields(API.v2_protobuf)
    assert document[1] == [b"2.0"]
    definitions = pairs(fields(document[9][0])[1])
    assert definitions.keys() == V2["definitions"].keys()
    for name, message in definitions.items():
        if "Thing" not in name:  # bounds are not read back here
            wanted = {key: each for key, each in V2["definitions"][name].items() if each != {}}
            assert schema(message) == wanted
    paths = pairs(fields(document[8][0])[2])
    assert paths.keys() == V2["paths"].keys()
    patch = fields(paths["/api/v1/nodes/{name}"][8][0])
    assert len(patch[8]) == len(V2["paths"]["/api/v1/nodes/{name}"]["patch"]["parameters"])
    kind = pairs(patch[13])["x-kubernetes-group-version-kind"][2][0]
    assert json.loads(kind) == {"group": "", "version": "v1", "kind": "Node"}
