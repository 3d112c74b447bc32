# SPDX-License-Identifier: Apache-2.0
"""Decoding by kind, manifests, nulls, and messages for bad input."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import (
    KINDS,
    NodeSLO,
    Object,
    Pod,
    codec,
    decode,
    decode_as,
    encode,
    load_manifests,
    read_manifests,
    to_document,
    to_json,
)
from koord.api.kinds.registry import kind_of_type
from koord.api.protocol import keys
from koord.api.protocol.scheduling import resource_spec
from koord.api.sloconfig.sections import SECTIONS, parse_section
from koord.base.errors import Code, KoordError
from tests.outcomes import refusal

from .samples import make_pod, manifest_files


@pytest.mark.parametrize("path", manifest_files(), ids=lambda p: p.name)
def test_every_example_manifest_decodes(path: Path) -> None:
    found = load_manifests(path.read_text("utf-8"), path.name)
    assert found
    for manifest in found:
        assert manifest.kind
        again = to_document(decode(to_json(manifest)))
        assert again == to_document(manifest)


def test_there_are_thirteen_example_manifests() -> None:
    assert len(manifest_files()) == 13


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k.api_version} {k.name}")
def test_every_kind_decodes_when_empty_and_knows_its_name(kind: Any) -> None:
    document = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "x"}}
    found = decode(document)
    assert type(found) is kind.type
    assert to_document(decode(to_json(found))) == to_document(found)
    fresh = kind.type()
    stamped = decode(encode(fresh))
    assert (stamped.api_version, stamped.kind) == (
        kind_of_type(kind.type).api_version,
        kind.name,
    )


def test_plurals() -> None:
    plurals = {kind.name: kind.plural for kind in KINDS if kind.custom}
    assert plurals["ClusterNetworkTopology"] == "clusternetworktopologies"
    assert plurals["NodeSLO"] == "nodeslos"
    assert plurals["ElasticQuota"] == "elasticquotas"


def test_null_is_absent() -> None:
    text = b'{"metadata":{"labels":null,"creationTimestamp":null},"spec":{"containers":null}}'
    assert decode_as(text, Pod) == Pod()
    assert decode_as(b'{"spec":{"cpuBurstStrategy":null}}', NodeSLO) == NodeSLO()


def test_unknown_keys_are_ignored_and_case_counts() -> None:
    assert decode_as(b'{"Spec":{},"status":{"unknown":1}}', Pod) == Pod()


def test_a_list_is_unfolded() -> None:
    text = '{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod"}]}'
    assert [type(found) for found in load_manifests(text)] == [Pod]


def test_kinds_that_are_not_ours_keep_their_metadata() -> None:
    (found,) = load_manifests("{apiVersion: v1, kind: Secret, metadata: {name: s}}")
    assert type(found) is Object
    assert found.title == "Secret s"


REFUSED = [
    ("[1]", "m document 1: got [1], expected a mapping with apiVersion and kind"),
    ("a: ]", "m: line 1: got "),
    ("{kind: Pod}", "m document 1: apiVersion: got None, expected the name of an API version"),
    (
        "{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservatoin}",
        "m document 1: apiVersion, kind: got 'scheduling.koordinator.sh/v1alpha1 Reservatoin', "
        "expected a known kind, such as scheduling.koordinator.sh/v1alpha1 Reservation",
    ),
    (
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priority: high}}",
        "m: Pod p: spec.priority: got 'high', expected an integer",
    ),
    (
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {overhead: {cpu: 1x}}}",
        "m: Pod p: spec.overhead[cpu]: got '1x', expected ",
    ),
    ("{apiVersion: v1, kind: Pod, 1: 2}", "m: got 1, expected text as the key of a mapping"),
    ("!!python/object:os.system {}", "m: line 1: got "),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_bad_manifests(text: str, message: str) -> None:
    with pytest.raises(KoordError) as raised:
        load_manifests(text, "m")
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_yaml_keeps_timestamps_as_text_and_follows_aliases() -> None:
    text = """
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: c, creationTimestamp: 2024-01-01T12:00:00Z, labels: &l {a: b}, annotations: *l}
    """
    (found,) = load_manifests(text)
    assert found.metadata.annotations == {"a": "b"}
    assert to_document(found.metadata)["creationTimestamp"] == "2024-01-01T12:00:00Z"


def test_a_document_that_contains_itself_is_refused() -> None:
    with pytest.raises(KoordError, match="a value that does not contain it"):
        load_manifests("&a {b: *a}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe")
    assert refusal(read_manifests, missing).startswith(f"{missing}: got '{missing}', expected some")
    assert refusal(read_manifests, binary) == (
        f"{binary}: got 'bytes that are no UTF-8', expected UTF-8 text"
    )
    assert refusal(read_manifests, manifest_files()[0]) == ""


@pytest.mark.parametrize("depth", [150, 400, 900, 100_000])
def test_deep_nesting_is_refused_everywhere(depth: int) -> None:
    lists, maps = "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth
    for deep in (lists, maps):
        text = '{"apiVersion":"v1","kind":"Pod","spec":{"volumes":%s}}' % deep  # noqa: UP031
        assert refusal(decode, text)
        assert refusal(decode_as, text.encode(), Pod)
        assert refusal(resource_spec, make_pod(annotations={keys.RESOURCE_SPEC: deep}))
        assert refusal(parse_section, SECTIONS["colocation-config"], deep, "c")
    assert refusal(load_manifests, f"{{apiVersion: v1, kind: Pod, a: {lists[: depth * 2]}}}")


def test_malformed_json_is_unreadable() -> None:
    with pytest.raises(KoordError) as raised:
        decode(b"{")
    assert raised.value.code is Code.UNREADABLE


WORDS = (
    "metadata", "name", "labels", "annotations", "spec", "status", "resourceThresholdStrategy",
    "thresholds", "cpu-suppress-percent", "resourceQOSStrategy", "beClass", "memoryQOS", "devices",
    "deviceType", "deviceModel", "uuid", "id", "minor", "totalMemory", "resources",
    "deviceAllocations", "device", "allocations", "pod", "allocated", "template", "owners",
    "containers", "ttl", "min", "max", "phase", "conditions", "nodeName",
)  # fmt: skip


def some_json(rng: Random, depth: int) -> Any:
    """Any JSON value, made of keys that mean something somewhere."""
    scalars: list[Any] = [None, True, 0, -1, 2**70, 0.5, "", "x", "5m", "1Gi", "Expired"]
    shape = rng.random() if depth else 0.0
    if shape < 0.3:
        return rng.choice(scalars)
    if shape < 0.5:
        return [some_json(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {word: some_json(rng, depth - 1) for word in rng.sample(WORDS, rng.randrange(4))}


@given(st.binary(max_size=64))
def test_random_bytes_are_refused_in_one_line(data: bytes) -> None:
    for kind in (Pod, NodeSLO):
        refusal(decode_as, data, kind)


@given(st.integers(0, 2**32 - 1))
def test_random_documents_decode_or_are_refused(seed: int) -> None:
    rng = Random(seed)
    kind = rng.choice([kind for kind in KINDS if kind.custom])
    parts = {word: some_json(rng, 4) for word in ("metadata", "spec", "status")}
    document = {**parts, "apiVersion": kind.api_version, "kind": kind.name}
    for data in (document, codec.to_json(document)):
        refusal(decode, data)


@given(st.text(max_size=40))
def test_random_text_is_no_manifest(text: str) -> None:
    refusal(load_manifests, text)
