# SPDX-License-Identifier: Apache-2.0
"""The dump of the table of types, and that the file is such a dump."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from tests.real.dump_schemas import dump

PREFIX = "#/components/schemas/"
FILE = files("koord.api.patching").joinpath("core.json")


def test_only_facts_are_kept() -> None:
    schemas: dict[str, Any] = {
        "io.k8s.api.x.v1.Thing": {
            "type": "object",
            "description": "words",
            "required": ["b", "a"],
            "x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Thing"}],
            "properties": {
                "a": {"type": "string", "description": "words", "default": ""},
                "b": {
                    "type": "array",
                    "items": {"allOf": [{"$ref": f"{PREFIX}io.k8s.api.x.v1.Item"}], "default": {}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "x-kubernetes-patch-strategy": "merge",
                    "x-kubernetes-patch-merge-key": "k",
                },
            },
        },
        "io.k8s.api.x.v1.Item": {
            "type": "object",
            "properties": {"k": {"type": "integer", "format": "int32", "default": 7}},
        },
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {
            "oneOf": [{"type": "string"}, {"type": "number"}]
        },
    }
    assert json.loads(dump([{"components": {"schemas": schemas}}])) == {
        "api.x.v1.Item": {"fields": {"k": {"type": "int32", "default": 7}}},
        "api.x.v1.Thing": {
            "kind": "x/v1/Thing",
            "required": ["a", "b"],
            "fields": {
                "a": "string",
                "b": {
                    "type": "[]api.x.v1.Item",
                    "list": "map",
                    "keys": ["k"],
                    "patch": "merge",
                    "merge": "k",
                },
            },
        },
        "apimachinery.pkg.api.resource.Quantity": {"is": "quantity"},
    }


def test_the_file_has_one_type_a_line_and_no_text() -> None:
    lines = FILE.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("{", "}")
    for line in lines[1:-1]:
        (entry,) = json.loads("{" + line.rstrip(",") + "}").values()
        assert entry.keys() <= {"kind", "map", "required", "fields", "is"}
        assert "description" not in json.dumps(entry).replace('"description": "string"', "")
    assert lines[1:-1] == sorted(lines[1:-1])
