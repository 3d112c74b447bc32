# SPDX-License-Identifier: Apache-2.0
"""Our CRDs against Koordinator's: what it has, we have, and what we add is optional."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from koord.api import KINDS, crdgen, crds, decode, priority_classes, to_document
from koord.api.protocol.priority import BANDS
from koord.base.documents import parse_documents

from .samples import DATA, manifest_files

# Plain Python takes seconds for these.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
REFERENCE = {
    p.name: yaml.load(p.read_text(), _LOADER) for p in sorted((DATA / "crds").glob("*.yaml"))
}
OURS = {f"{d['spec']['group']}_{d['spec']['names']['plural']}.yaml": d for d in crds()}

# What their communities type, beside the reference's.
SHORT = {
    "scheduling.sigs.k8s.io_elasticquotas.yaml": ["eq", "eqs"],
    "scheduling.sigs.k8s.io_podgroups.yaml": ["pg", "pgs"],
}
# Keywords that narrow what a client may write; ours have to be the reference's.
KEYWORDS = (
    "type", "format", "enum", "default", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "pattern", "nullable", "anyOf",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-map-type", "x-kubernetes-list-type",
)  # fmt: skip


def differences(reference: dict[str, Any], ours: dict[str, Any], path: str) -> Iterator[str]:
    for keyword in KEYWORDS:
        if reference.get(keyword) != ours.get(keyword):
            yield f"{path}: {keyword} is {ours.get(keyword)!r}, not {reference.get(keyword)!r}"
    if sorted(reference.get("required", [])) != sorted(ours.get("required", [])):
        yield f"{path}: required is {ours.get('required')}, not {reference.get('required')}"
    theirs, own = reference.get("properties", {}), ours.get("properties", {})
    for name, schema in theirs.items():
        if name not in own:
            yield f"{path}.{name}: missing"
        else:
            yield from differences(schema, own[name], f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if (inner in reference) != (inner in ours):
            yield f"{path}: {inner} on one side only"
        elif inner in reference:
            yield from differences(reference[inner], ours[inner], f"{path}[]")


def test_the_reference_schemas_are_all_served() -> None:
    assert len(REFERENCE) == 13
    assert set(OURS) - set(REFERENCE) == {"quota.koordinator.sh_elasticquotas.yaml"}
    assert set(REFERENCE) <= set(OURS)


@pytest.mark.parametrize("name", REFERENCE)
def test_names_and_scope_are_the_same(name: str) -> None:
    reference, ours = REFERENCE[name]["spec"], OURS[name]["spec"]
    names = {**ours["names"]}
    if name in SHORT:
        assert "shortNames" not in reference["names"]
        assert names.pop("shortNames") == SHORT[name]
    assert {**ours, "names": names, "versions": 0} == {**reference, "versions": 0}
    approved = "api-approved.kubernetes.io"
    theirs = REFERENCE[name]["metadata"].get("annotations", {}).get(approved)
    assert OURS[name]["metadata"].get("annotations", {}).get(approved) == theirs


@pytest.mark.parametrize("name", REFERENCE)
def test_versions_and_subresources_are_the_same(name: str) -> None:
    def outline(document: dict[str, Any]) -> list[dict[str, Any]]:
        left_out = ("schema", "additionalPrinterColumns")
        versions = document["spec"]["versions"]
        return [{k: v for k, v in each.items() if k not in left_out} for each in versions]

    assert outline(OURS[name]) == outline(REFERENCE[name])


@pytest.mark.parametrize("name", REFERENCE)
def test_columns_begin_with_the_same(name: str) -> None:
    def columns(version: dict[str, Any]) -> list[tuple[str, str, str]]:
        found = version.get("additionalPrinterColumns", [])
        return [(c["name"], c["type"], c["jsonPath"]) for c in found]

    pairs = zip(REFERENCE[name]["spec"]["versions"], OURS[name]["spec"]["versions"], strict=True)
    for reference, ours in pairs:
        wanted = columns(reference)
        assert columns(ours)[: len(wanted)] == wanted


@pytest.mark.parametrize("name", REFERENCE)
def test_no_field_of_the_reference_is_missing_or_other(name: str) -> None:
    pairs = zip(REFERENCE[name]["spec"]["versions"], OURS[name]["spec"]["versions"], strict=True)
    for reference, ours in pairs:
        theirs, own = (each["schema"]["openAPIV3Schema"] for each in (reference, ours))
        found = [line for line in differences(theirs, own, "") if line]
        assert found == []


def test_the_comparison_finds_what_is_wrong() -> None:
    reference = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}
    assert list(differences(reference, {"type": "object"}, "")) == [".a: missing"]
    laxer = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert list(differences(reference, laxer, "")) == [".a: minimum is None, not 0"]


@pytest.mark.parametrize("name", ["slo.koordinator.sh_nodeslos", "slo.koordinator.sh_nodemetrics",
                                  "scheduling.koordinator.sh_devices",
                                  "scheduling.koordinator.sh_scheduleexplanations",
                                  "scheduling.sigs.k8s.io_elasticquotas",
                                  "scheduling.sigs.k8s.io_podgroups",
                                  "topology.node.k8s.io_noderesourcetopologies",
                                  "config.koordinator.sh_clustercolocationprofiles",
                                  "quota.koordinator.sh_elasticquotaprofiles"])  # fmt: skip
def test_kinds_without_columns_get_some(name: str) -> None:
    assert OURS[f"{name}.yaml"]["spec"]["versions"][0]["additionalPrinterColumns"]


def test_the_flat_quota_has_a_short_name() -> None:
    names = OURS["quota.koordinator.sh_elasticquotas.yaml"]["spec"]["names"]
    assert (names["kind"], names["plural"], names["shortNames"]) == (
        "ElasticQuota", "elasticquotas", ["keq"],
    )  # fmt: skip


def test_the_committed_files_are_those_the_types_make() -> None:
    made = crdgen.definitions()
    committed = sorted(path.name for path in crdgen.FOLDER.glob("*.yaml"))
    assert committed == sorted(made)
    for name, document in made.items():
        assert (crdgen.FOLDER / name).read_text("utf-8") == crdgen.rendered(document), name


DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def test_what_is_deployed_is_what_the_package_holds(tmp_path: Path) -> None:
    crdgen.copy_to(tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.yaml")}
    assert len(made) == len(OURS) + 1
    deployed = [*DEPLOY.glob("*.yaml"), *(DEPLOY / "crds").rglob("*.yaml")]
    assert {path.relative_to(DEPLOY): path.read_bytes() for path in deployed} == made


def test_the_flat_quota_is_only_for_who_asks_for_it() -> None:
    """``kubectl apply -f deploy/crds`` takes the files of that folder alone."""
    assert [path.name for path in (DEPLOY / "crds" / "guide").iterdir()] == [
        "quota.koordinator.sh_elasticquotas.yaml"
    ]
    plain = sorted(path.name for path in (DEPLOY / "crds").glob("*.yaml"))
    assert plain == sorted(REFERENCE)
    names = {each["metadata"]["name"] for each in crds(guide=False)}
    assert {each["metadata"]["name"] for each in crds()} - names == {
        "elasticquotas.quota.koordinator.sh"
    }


def test_stale_copies_go(tmp_path: Path) -> None:
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "gone.yaml").write_text("{}")
    crdgen.copy_to(tmp_path)
    assert not (tmp_path / "crds" / "gone.yaml").exists()


def test_the_priority_classes_are_those_of_the_bands() -> None:
    shipped = {each["metadata"]["name"]: each for each in priority_classes()}
    assert list(shipped) == [str(name) for name in BANDS]
    for name, band in BANDS.items():
        assert shipped[name]["value"] == band.shipped
        assert shipped[name]["preemptionPolicy"] == "PreemptLowerPriority"
        assert "globalDefault" not in shipped[name]
        assert f"from {band.low} to {band.high}" in shipped[name]["description"]


def test_every_custom_kind_is_defined() -> None:
    defined = {
        (d["spec"]["group"], version["name"], d["spec"]["names"]["kind"])
        for d in crds()
        for version in d["spec"]["versions"]
    }
    assert defined == {(k.group, k.version, k.name) for k in KINDS if k.custom}


GUIDE_FIELDS = [
    ("slo.koordinator.sh_nodeslos", "spec.resourceThresholdStrategy.thresholds"),
    ("slo.koordinator.sh_nodeslos", "spec.resourceQOSStrategy.lsrClass.blkIOQOS"),
    ("slo.koordinator.sh_nodeslos", "status.nodeMetric"),
    ("slo.koordinator.sh_nodemetrics", "spec.nodeName"),
    ("slo.koordinator.sh_nodemetrics", "spec.collectionIntervalSeconds"),
    ("slo.koordinator.sh_nodemetrics", "status.nodeMetric.usage"),
    ("slo.koordinator.sh_nodemetrics", "status.beMetric.request"),
    ("slo.koordinator.sh_nodemetrics", "status.podMetrics.[].podRef.name"),
    ("scheduling.koordinator.sh_devices", "spec.devices.[].deviceModel"),
    ("scheduling.koordinator.sh_devices", "spec.devices.[].totalMemory"),
    ("scheduling.koordinator.sh_devices", "status.deviceAllocations.[].allocations.[].allocated"),
    ("quota.koordinator.sh_elasticquotas", "spec.hard"),
    ("quota.koordinator.sh_elasticquotas", "status.allocatedQuota"),
]


@pytest.mark.parametrize(("name", "path"), GUIDE_FIELDS)
def test_fields_of_the_simpler_shapes_are_not_pruned(name: str, path: str) -> None:
    schema = OURS[f"{name}.yaml"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in path.split("."):
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    assert schema


def pruned(document: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The fields that an API server drops because the schema does not list them."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(document, dict) and "additionalProperties" in schema:
        for key, value in document.items():
            yield from pruned(value, schema["additionalProperties"], f"{path}[{key}]")
    elif isinstance(document, dict) and schema.get("type") == "object" and path != ".metadata":
        for key, value in document.items():
            inner = schema.get("properties", {}).get(key)
            if inner is None:
                yield f"{path}.{key}"
            else:
                yield from pruned(value, inner, f"{path}.{key}")
    elif isinstance(document, list):
        for item in document:
            yield from pruned(item, schema["items"], f"{path}[]")


def custom_manifests() -> list[Any]:
    """Name, document and schema of each example object that a CRD of ours defines."""
    schemas = {
        (f"{d['spec']['group']}/{version['name']}", d["spec"]["names"]["kind"]): version
        for d in crds()
        for version in d["spec"]["versions"]
    }
    found = []
    for path in manifest_files():
        for document in parse_documents(path.read_text("utf-8"), path.name):
            version = schemas.get((document["apiVersion"], document["kind"]))
            if version is not None:
                schema = version["schema"]["openAPIV3Schema"]
                found.append(pytest.param(document, schema, id=document["metadata"]["name"]))
    return found


@pytest.mark.parametrize(("document", "schema"), custom_manifests())
def test_example_objects_are_valid_and_lose_nothing(document: Any, schema: Any) -> None:
    validator = jsonschema_rs.validator_for(schema)
    assert [error.message for error in validator.iter_errors(document)] == []
    assert list(pruned(document, schema)) == []
    canonical = to_document(decode(document))
    assert [error.message for error in validator.iter_errors(canonical)] == []


@pytest.mark.parametrize(
    "bad",
    [
        {"template": {}, "owners": []},
        {"owners": [{"object": {"name": "a"}}]},
        {"template": {}, "owners": [{}]},
        {"template": {}, "owners": [{"object": {}}], "allocatePolicy": "Other"},
    ],
)
def test_wrong_reservations_are_invalid(bad: dict[str, Any]) -> None:
    document = OURS["scheduling.koordinator.sh_reservations.yaml"]
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert not jsonschema_rs.is_valid(schema, {"spec": bad})


def test_whoever_changes_what_it_gets_changes_nothing_for_others() -> None:
    crds()[0]["metadata"]["name"] = "changed"
    priority_classes()[0]["metadata"]["name"] = "changed"
    names = {each["metadata"]["name"] for each in [*crds(), *priority_classes()]}
    assert "changed" not in names
