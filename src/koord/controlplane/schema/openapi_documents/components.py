# SPDX-License-Identifier: Apache-2.0
"""The types of served resources as OpenAPI schemas, for version 2 and version 3 documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.patching.core_types import PREFIX, table
from koord.controlplane.schema.builtin.core_schema import CoreSchema
from koord.controlplane.schema.custom.crd_schema import CrdSchema
from koord.controlplane.schema.custom.structural import INT_OR_STRING, OBJECT_META, PRESERVE

if TYPE_CHECKING:
    from koord.controlplane.resource import Resource

KINDS = "x-kubernetes-group-version-kind"
LIST_META = "apimachinery.pkg.apis.meta.v1.ListMeta"
_RULES = {
    "list": "x-kubernetes-list-type",
    "keys": "x-kubernetes-list-map-keys",
    "map": "x-kubernetes-map-type",
    "patch": "x-kubernetes-patch-strategy",
    "merge": "x-kubernetes-patch-merge-key",
    "enum": "enum",
    "default": "default",
}
_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "byte": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "micro-time": {"type": "string", "format": "date-time"},
    "object": {"type": "object"},
    "any": {},
}
_ONE_OF: dict[str, dict[str, Any]] = {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "int-or-string": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}
_WITHOUT_ONE_OF: dict[str, dict[str, Any]] = {
    "quantity": {"type": "string"},
    "int-or-string": {"type": "string", "format": "int-or-string"},
}
# What OpenAPI 2 has no words for.
_ONLY_V3 = ("oneOf", "anyOf", "allOf", "not", "nullable", "default")


@dataclass(frozen=True)
class Dialect:
    """One version of OpenAPI.

    Attributes:
        version: 2 or 3.
        place: what references to types begin with.
    """

    version: int
    place: str

    def reference(self, name: str) -> dict[str, Any]:
        """A reference to a type by its full name."""
        return {"$ref": self.place + name}

    def field(self, name: str, rules: dict[str, Any]) -> dict[str, Any]:
        """A reference with more to say beside it."""
        if self.version == 2 or not rules:
            return {**self.reference(name), **rules}
        return {**rules, "allOf": [self.reference(name)]}

    def scalar(self, word: str) -> dict[str, Any]:
        """A scalar of the table."""
        special = _ONE_OF if self.version == 3 else _WITHOUT_ONE_OF
        return {**(special.get(word) or _SCALARS[word])}


V2 = Dialect(2, "#/definitions/")
V3 = Dialect(3, "#/components/schemas/")


def component_name(resource: Resource) -> str:
    """The name of a resource's type, e.g. ``io.k8s.api.core.v1.Pod``."""
    if isinstance(resource.schema, CoreSchema):
        return PREFIX + resource.schema.type_name
    group = ".".join(reversed(resource.group.split(".")))
    return f"{group}.{resource.version}.{resource.kind}"


class Components:
    """Collects the schemas of types, and of all types that they hold.

    Args:
        dialect: how they are written.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.schemas: dict[str, dict[str, Any]] = {}

    def add(self, resource: Resource) -> None:
        """The type of a resource, and that of its lists."""
        if isinstance(resource.schema, CoreSchema):
            self.add_core(resource.schema.type_name)
            if f"{resource.schema.type_name}List" in table():
                self.add_core(f"{resource.schema.type_name}List")
            return
        name = component_name(resource)
        schema = resource.schema
        openapi = schema.openapi if isinstance(schema, CrdSchema) else {PRESERVE: True}
        self.schemas[name] = self._custom(openapi, resource)
        self.schemas[f"{name}List"] = self._custom_list(name, resource)
        self.add_core(OBJECT_META)
        self.add_core(LIST_META)

    def add_core(self, type_name: str) -> None:
        """A type of the table, by its name without prefix."""
        name = PREFIX + type_name
        if name in self.schemas:
            return
        entry = table()[type_name]
        if "is" in entry:
            self.schemas[name] = self._dialect.scalar(entry["is"])
            return
        schema: dict[str, Any] = {"type": "object"}
        self.schemas[name] = schema
        if "required" in entry:
            schema["required"] = entry["required"]
        schema["properties"] = {key: self._field(said) for key, said in entry["fields"].items()}
        if "map" in entry:
            schema["x-kubernetes-map-type"] = entry["map"]
        if "kind" in entry:
            *group, version, kind = entry["kind"].split("/")
            schema[KINDS] = [{"group": "".join(group), "version": version, "kind": kind}]

    def _field(self, entry: str | dict[str, Any]) -> dict[str, Any]:
        if isinstance(entry, str):
            return self._expression(entry, {})
        rules = {_RULES[key]: value for key, value in entry.items() if key != "type"}
        return self._expression(entry["type"], rules)

    def _expression(self, text: str, rules: dict[str, Any]) -> dict[str, Any]:
        if text.startswith("[]"):
            return {"type": "array", "items": self._expression(text[2:], {}), **rules}
        if text.startswith("{}"):
            values = self._expression(text[2:], {})
            return {"type": "object", "additionalProperties": values, **rules}
        if "." in text:
            self.add_core(text)
            return self._dialect.field(PREFIX + text, rules)
        return {**self._dialect.scalar(text), **rules}

    def _custom(self, openapi: dict[str, Any], resource: Resource) -> dict[str, Any]:
        schema = dict(openapi if self._dialect.version == 3 else _plainer(openapi))
        metadata = self._dialect.field(PREFIX + OBJECT_META, {})
        schema["properties"] = {
            **schema.get("properties", {}),
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
        }
        return {**schema, KINDS: _kinds(resource, resource.kind)}

    def _custom_list(self, name: str, resource: Resource) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": self._dialect.field(PREFIX + LIST_META, {}),
                "items": {"type": "array", "items": self._dialect.reference(name)},
            },
            KINDS: _kinds(resource, resource.list_kind),
        }


def _kinds(resource: Resource, kind: str) -> list[dict[str, str]]:
    return [{"group": resource.group, "version": resource.version, "kind": kind}]


def _plainer(schema: dict[str, Any]) -> dict[str, Any]:
    """A structural schema in the words of OpenAPI 2."""
    plain = {key: value for key, value in schema.items() if key not in _ONLY_V3}
    if schema.get(INT_OR_STRING) or schema.get(PRESERVE) or schema.get("nullable"):
        # Types that OpenAPI 2 cannot tell are left open, so that no client refuses a good value.
        for key in ("type", "items", "properties", "additionalProperties"):
            plain.pop(key, None)
    if "properties" in plain:
        plain["properties"] = {key: _plainer(each) for key, each in plain["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(plain.get(key), dict):
            plain[key] = _plainer(plain[key])
    return plain
