# SPDX-License-Identifier: Apache-2.0
"""Each way in which a cluster's definition may differ from ours is found and named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from koord.api import crds
from koord.api.crdcompare import Side, compare
from koord.kube import crds as installing

from .samples import DATA

OURS = {each["metadata"]["name"]: each for each in crds()}
NAME = "reservations.scheduling.koordinator.sh"

Change = Callable[[dict[str, Any]], object]


def version(definition: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definition["spec"]["versions"][0]
    return found


def spec_schema(definition: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = version(definition)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


@pytest.mark.parametrize("name", OURS)
def test_a_definition_equals_itself(name: str) -> None:
    assert compare(OURS[name], copy.deepcopy(OURS[name])) == []


def test_what_servers_add_and_descriptions_do_not_count() -> None:
    theirs = copy.deepcopy(OURS[NAME])
    theirs["status"] = {"acceptedNames": {}}
    theirs["spec"]["conversion"] = {"strategy": "None"}
    spec_schema(theirs)["description"] = "other words"
    assert compare(OURS[NAME], theirs) == []


CHANGES: list[tuple[Change, str]] = [
    (lambda d: d["spec"].update(scope="Namespaced"), "scope: is 'Namespaced', not 'Cluster'"),
    (lambda d: d["spec"]["names"].update(kind="R"), "names.kind: is 'R', not 'Reservation'"),
    (lambda d: d["spec"]["names"].update(shortNames=["rsv"]), "names.shortNames.rsv: extra"),
    (lambda d: version(d).update(name="v1beta1"), "v1alpha1: missing"),
    (lambda d: version(d).update(served=False), "v1alpha1.served: is False, not True"),
    (lambda d: version(d).pop("subresources"), "v1alpha1.subresources.status: missing"),
    (lambda d: version(d)["additionalPrinterColumns"].pop(), "v1alpha1.columns.Problem: missing"),
    (lambda d: version(d).pop("schema"), "v1alpha1.type: is None, not 'object'"),
    (lambda d: spec_schema(d)["properties"].pop("ttl"), "v1alpha1.spec.ttl: missing"),
    (lambda d: spec_schema(d)["properties"].update(more={}), "v1alpha1.spec.more: extra"),
    (lambda d: spec_schema(d)["properties"]["ttl"].update(type="integer"),
     "v1alpha1.spec.ttl.type: is 'integer', not 'string'"),
    (lambda d: spec_schema(d).update(required=["owners"]),
     "v1alpha1.spec.required: is ['owners'], not ['owners', 'template']"),
    (lambda d: spec_schema(d)["properties"]["owners"]["items"].pop("minProperties"),
     "v1alpha1.spec.owners[].minProperties: is None, not 1"),
    (lambda d: spec_schema(d)["properties"]["owners"].pop("items"),
     "v1alpha1.spec.owners.items: is None, not {"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), CHANGES, ids=[said for _, said in CHANGES])
def test_each_difference_is_named(change: Change, expected: str) -> None:
    theirs = copy.deepcopy(OURS[NAME])
    change(theirs)
    assert any(str(found).startswith(expected) for found in compare(OURS[NAME], theirs))


@pytest.mark.parametrize("path", sorted((DATA / "crds").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_originals_definitions_lack_something_at_most(path: Any) -> None:
    theirs = yaml.safe_load(path.read_text("utf-8"))
    found = compare(OURS[theirs["metadata"]["name"]], theirs)
    assert {difference.side for difference in found} <= {Side.MISSING}


def test_a_definition_that_lacks_columns_alone_is_current() -> None:
    theirs = copy.deepcopy(OURS[NAME])
    version(theirs)["additionalPrinterColumns"] = version(theirs)["additionalPrinterColumns"][:5]
    theirs["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    found = installing._check(NAME, OURS[NAME], theirs)
    assert found.state is installing.DefinitionState.CURRENT
    assert [str(each) for each in found.differences] == ["v1alpha1.columns.Problem: missing"]
    del spec_schema(theirs)["properties"]["ttl"]
    assert installing._check(NAME, OURS[NAME], theirs).state is installing.DefinitionState.OLDER
