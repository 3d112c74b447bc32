# SPDX-License-Identifier: Apache-2.0
"""Writes the table of core types from a kube-apiserver: ``koord/api/patching/core.json``.

Only facts are kept: names, types, list and merge rules. Descriptions stay behind. A test dumps the
table anew from the control plane built for the tests and compares it with the file.

    python tests/real/dump_schemas.py https://127.0.0.1:6443 --token TOKEN > core.json
"""

from __future__ import annotations

import argparse
import json
import ssl
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROUP_VERSIONS = (
    "api/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v1",
    "apis/autoscaling/v2",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/resource.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/storage.k8s.io/v1",
)
REFERENCE = "#/components/schemas/"
PREFIX = "io.k8s."
SKIPPED = {"io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}
SCALARS = {
    ("string", ""): "string",
    ("string", "byte"): "byte",
    ("string", "date-time"): "time",
    ("boolean", ""): "boolean",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "double",
    ("object", ""): "object",
}


def dump(documents: Iterable[Mapping[str, Any]]) -> str:
    """The table as JSON text, one type a line.

    Args:
        documents: what ``/openapi/v3/GROUP/VERSION`` answers, one for each of
            :data:`GROUP_VERSIONS`.
    """
    schemas: dict[str, Any] = {}
    for document in documents:
        schemas.update(document["components"]["schemas"])
    lines = [
        f"{json.dumps(_short(name))}: {_line(_type(name, schema))}"
        for name, schema in sorted(schemas.items())
        if name not in SKIPPED
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _line(value: object) -> str:
    return json.dumps(value, separators=(", ", ": "))


def _short(name: str) -> str:
    return name.removeprefix(PREFIX)


def _type(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    kinds = schema.get("x-kubernetes-group-version-kind", [])
    if kinds:
        # Kinds of meta/v1 are listed with every group; the core's entry is the first.
        first = min(kinds, key=lambda kind: (kind["group"], kind["version"]))
        parts = (first["group"], first["version"], first["kind"])
        entry["kind"] = "/".join(part for part in parts if part)
    if "properties" not in schema:
        return entry | {"is": _leaf(name, schema)}
    if "x-kubernetes-map-type" in schema:
        entry["map"] = schema["x-kubernetes-map-type"]
    if "required" in schema:
        entry["required"] = sorted(schema["required"])
    entry["fields"] = {key: _field(value) for key, value in sorted(schema["properties"].items())}
    return entry


def _leaf(name: str, schema: Mapping[str, Any]) -> str:
    """The word for a type without fields."""
    if name.endswith(".MicroTime"):
        return "micro-time"
    if schema.get("format") == "int-or-string":
        return "int-or-string"
    if "oneOf" in schema:
        return "quantity"
    return _expression(schema) if schema.keys() - {"description"} else "any"


def _field(schema: Mapping[str, Any]) -> str | dict[str, Any]:
    """A field: the expression of its type, or that with what else is said of it."""
    rules = {
        "list": schema.get("x-kubernetes-list-type"),
        "keys": schema.get("x-kubernetes-list-map-keys"),
        "map": schema.get("x-kubernetes-map-type"),
        "patch": schema.get("x-kubernetes-patch-strategy"),
        "merge": schema.get("x-kubernetes-patch-merge-key"),
        "enum": schema.get("enum"),
        "default": schema.get("default") or None,
    }
    said = {key: value for key, value in rules.items() if value is not None}
    expression = _expression(schema)
    return {"type": expression, **said} if said else expression


def _expression(schema: Mapping[str, Any]) -> str:
    """``string``, ``[]core.v1.Container`` for a list, ``{}string`` for a map, ..."""
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), None)
    if reference:
        return _short(reference.removeprefix(REFERENCE))
    if schema.get("type") == "array":
        return "[]" + _expression(schema["items"])
    if "additionalProperties" in schema:
        return "{}" + _expression(schema["additionalProperties"])
    return SCALARS[schema.get("type", ""), schema.get("format", "")]


def _fetch(server: str, token: str) -> list[dict[str, Any]]:
    context = ssl._create_unverified_context()
    found = []
    for path in GROUP_VERSIONS:
        request = urllib.request.Request(f"{server}/openapi/v3/{path}")
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, context=context) as answer:
            found.append(json.load(answer))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="URL of a kube-apiserver")
    parser.add_argument("--token", required=True)
    arguments = parser.parse_args()
    sys.stdout.write(dump(_fetch(arguments.server, arguments.token)))


if __name__ == "__main__":
    main()
