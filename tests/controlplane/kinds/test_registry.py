# SPDX-License-Identifier: Apache-2.0
"""The table of core kinds names them as a real server's discovery does."""

from __future__ import annotations

import json
from typing import Any

from koord.base.clock import SystemClock
from koord.controlplane.authorization.account_tokens import AccountTokens
from koord.controlplane.kinds import registry
from koord.controlplane.storage.conversion import StoreReader
from koord.controlplane.storage.store import Store
from koord.controlplane.subresources import table
from tests.controlplane.goldens import DATA


def recorded() -> dict[tuple[str, str, str], dict[str, Any]]:
    entries = json.loads((DATA / "discovery.json").read_text())
    return {(entry["group"], entry["version"], entry["plural"]): entry for entry in entries}


def test_every_core_resource_is_named_as_by_a_real_server() -> None:
    known = recorded()
    for resource in registry.resources():
        # Of proxies, only those of pods are there, to be refused in words.
        left_out = set() if resource.plural == "pods" else {"proxy"}
        real = known[resource.group, resource.version, resource.plural]
        assert {
            "kind": resource.kind,
            "namespaced": resource.namespaced,
            "singular": resource.singular,
            "shortNames": list(resource.short_names),
            "categories": list(resource.categories),
            "verbs": sorted(resource.verbs),
            "subresources": sorted(resource.subresources),
        } == {
            "kind": real["kind"],
            "namespaced": real["namespaced"],
            "singular": real["singular"],
            "shortNames": real["shortNames"],
            "categories": real["categories"],
            "verbs": sorted(real["verbs"]),
            "subresources": sorted(set(real["subresources"]) - left_out),
        }, resource.plural


def test_resources_are_served_once() -> None:
    names = [(r.group, r.version, r.plural) for r in registry.resources()]
    assert len(set(names)) == len(names)


def test_a_row_has_a_cell_for_each_column() -> None:
    for resource in registry.resources():
        document = {"metadata": {"name": "a", "namespace": "b"}}
        resource.strategy.default(document)
        row = resource.strategy.row(document, 0.0)
        assert len(row) == len(resource.strategy.columns), resource.plural


def test_field_selectors_have_a_value_for_each_field() -> None:
    for resource in registry.resources():
        document = {"metadata": {"name": "a", "namespace": "b"}}
        resource.strategy.default(document)
        fields = resource.strategy.fields(document)
        assert set(fields) == set(resource.strategy.selectable), resource.plural
        assert all(isinstance(value, str) for value in fields.values())


def test_every_handler_serves_a_subresource_of_the_table() -> None:
    served = {(r.storage, name) for r in registry.resources() for name in r.subresources}
    for key in table.handlers(AccountTokens(b"key", StoreReader(Store()), SystemClock())):
        assert key in served
