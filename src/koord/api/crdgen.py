# SPDX-License-Identifier: Apache-2.0
"""Turns the types of :mod:`koord.api.kinds` into CustomResourceDefinition documents.

``python -m koord.api.crdgen deploy`` rewrites the files in ``koord/api/crds`` and copies them and
the other manifests into the folder ``deploy``; a test keeps all in step.
Every field the reference schemas of Koordinator have is in the types, so that a client that knows
only those works with ours, and the other way round.
"""

from __future__ import annotations

import sys
import types
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import yaml

from koord.api.crdtables import COLUMNS, EXTRAS, PROTECTED_GROUP, REQUIRED_IN_VERSION, WITH_STATUS
from koord.api.definitions import GUIDE_CRD
from koord.api.duration import Duration
from koord.api.fielddocs import field_docs, summary
from koord.api.kinds.meta import LabelSelector, ObjectMeta, ObjectReference, OwnerReference
from koord.api.kinds.pod import PodTemplateSpec
from koord.api.kinds.registry import KINDS, Kind
from koord.api.kinds.reservation import ReservationOwner
from koord.api.schema import Schema
from koord.kernels.quantity import Quantity

FOLDER = Path(__file__).parent / "crds"
MANIFESTS = Path(__file__).parent / "manifests"

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    Duration: {"type": "string"},
    Quantity: {**_INT_OR_STRING, "pattern": _QUANTITY_PATTERN},
    Any: {_PRESERVE: True},
}
# Types whose schema is not that of their fields, or says more.
_WHOLE: dict[Any, dict[str, Any]] = {
    ObjectMeta: {"type": "object"},
    PodTemplateSpec: {_PRESERVE: True},
}
_ATOMIC = (LabelSelector, ObjectReference, OwnerReference)
_HAS_ONE = (ReservationOwner,)


def definition(kinds: list[Kind]) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind, all its versions given; the last one is stored."""
    kind = kinds[-1]
    names = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
    }
    short = {"shortNames": list(kind.short_names)} if kind.short_names else {}
    metadata: dict[str, Any] = {"name": f"{kind.plural}.{kind.group}"}
    if kind.group in PROTECTED_GROUP:
        approved = {"api-approved.kubernetes.io": PROTECTED_GROUP[kind.group]}
        metadata = {"annotations": approved, **metadata}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": {**names, **short},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(each, stored=each is kind) for each in kinds],
        },
    }


def definitions() -> dict[str, dict[str, Any]]:
    """File name to document, for every custom kind."""
    grouped: dict[str, list[Kind]] = {}
    for kind in KINDS:
        if kind.custom:
            grouped.setdefault(f"{kind.group}_{kind.plural}.yaml", []).append(kind)
    return {name: definition(kinds) for name, kinds in grouped.items()}


def _version(kind: Kind, *, stored: bool) -> dict[str, Any]:
    schema = _object_schema(kind.type)
    for path, extra in EXTRAS.get((kind.group, kind.name), {}).items():
        _add(schema, path.split("."), extra)
    for field in REQUIRED_IN_VERSION.get((kind.name, kind.version), ()):
        schema["required"] = sorted([*schema.get("required", []), field])
    version: dict[str, Any] = {}
    if (kind.group, kind.name) in COLUMNS:
        columns = COLUMNS[kind.group, kind.name]
        version["additionalPrinterColumns"] = [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns
        ]
    version |= {"name": kind.version, "schema": {"openAPIV3Schema": schema}}
    version |= {"served": True, "storage": stored}
    if (kind.group, kind.name) in WITH_STATUS:
        version["subresources"] = {"status": {}}
    return version


def _add(schema: dict[str, Any], path: list[str], extra: dict[str, Any]) -> None:
    """Adds an optional property; ``[]`` in a path steps into the items of a list."""
    for step in path[:-1]:
        if step == "[]":
            schema = schema["items"]
        else:
            properties = schema.setdefault("properties", {})
            schema = properties.setdefault(step, {"type": "object"})
    schema.setdefault("properties", {})[path[-1]] = extra


def _object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    docs = field_docs(kind)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        schema, keywords = _field_schema(field.type)
        description = docs.get(name)
        properties[name] = {"description": description, **schema} if description else schema
        if keywords.required:
            required.append(name)
    schema = {"description": summary(kind), "type": "object"}
    if properties:
        schema["properties"] = dict(sorted(properties.items()))
    if required:
        schema["required"] = sorted(required)
    if issubclass(kind, _ATOMIC):
        schema["x-kubernetes-map-type"] = "atomic"
    if kind in _HAS_ONE:
        schema["minProperties"] = 1
    return schema


def _field_schema(annotation: Any) -> tuple[dict[str, Any], Schema]:
    options, keywords = _unwrapped(annotation)
    if set(options) == {int, str}:
        schema = dict(_INT_OR_STRING)
    else:
        (option,) = options
        schema = _type_schema(option)
    given = msgspec.to_builtins(keywords)
    if given.pop("untyped", False):
        schema.pop("type")
    if given.pop("atomic", False):
        schema["x-kubernetes-list-type"] = "atomic"
    given.pop("required", None)
    return schema | given, keywords


def _type_schema(option: Any) -> dict[str, Any]:
    if option in _SCALARS:
        return dict(_SCALARS[option])
    if option in _WHOLE:
        return dict(_WHOLE[option])
    if get_origin(option) is list:
        return {"type": "array", "items": _field_schema(get_args(option)[0])[0]}
    if get_origin(option) is dict:
        inner = get_args(option)[1]
        if inner is Any:
            return {"type": "object", _PRESERVE: True}
        return {"type": "object", "additionalProperties": _field_schema(inner)[0]}
    return _object_schema(option)


def _unwrapped(annotation: Any) -> tuple[list[Any], Schema]:
    """The types an annotation admits besides None, and its keywords, inner and outer."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        options, keywords = _unwrapped(inner)
        for extra in extras:
            keywords = _joined(keywords, extra)
        return options, keywords
    if origin in (Union, types.UnionType):
        options, keywords = [], Schema()
        for member in get_args(annotation):
            if member is not types.NoneType:
                found, more = _unwrapped(member)
                options += found
                keywords = _joined(keywords, more)
        return options, keywords
    return [annotation], Schema()


def _joined(one: Schema, other: Schema) -> Schema:
    empty = Schema()
    changed = {
        name: getattr(other, name)
        for name in other.__struct_fields__
        if getattr(other, name) != getattr(empty, name)
        # False and 0 equal each other, but as a default each says something.
        or (name == "default" and other.default is not None)
    }
    return msgspec.structs.replace(one, **changed)


def rendered(document: dict[str, Any]) -> str:
    """The YAML text of a definition, as it is committed."""
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    header = "# SPDX-License-Identifier: Apache-2.0\n"
    return (
        f"{header}# Generated by `python -m koord.api.crdgen` from the types; do not edit.\n{body}"
    )


class _Dumper(yaml.SafeDumper):
    """Writes repeated parts out instead of aliasing them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def copy_to(deploy: Path) -> None:
    """Makes a folder's manifests those of the package: ``crds/`` and what lies in ``manifests``.

    What a cluster gets only on request is in ``crds/guide/``, where ``kubectl apply -f crds`` does
    not look.
    """
    copies = deploy / "crds"
    (copies / "guide").mkdir(parents=True, exist_ok=True)
    for stale in copies.rglob("*.yaml"):
        stale.unlink()
    plural, _, group = GUIDE_CRD.partition(".")
    asked = f"{group}_{plural}.yaml"
    (deploy / "rbac").mkdir(exist_ok=True)
    sources = ((FOLDER, copies), (MANIFESTS, deploy), (MANIFESTS / "rbac", deploy / "rbac"))
    for folder, target in sources:
        for path in sorted(folder.glob("*.yaml")):
            place = target / "guide" if path.name == asked else target
            (place / path.name).write_bytes(path.read_bytes())


def main() -> None:
    """Rewrites the definitions beside this module, and their copies in the folders named."""
    FOLDER.mkdir(exist_ok=True)
    for name, document in definitions().items():
        (FOLDER / name).write_text(rendered(document), encoding="utf-8")
    for folder in sys.argv[1:]:
        copy_to(Path(folder))


if __name__ == "__main__":
    main()
