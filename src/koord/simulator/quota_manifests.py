# SPDX-License-Identifier: Apache-2.0
"""ElasticQuota manifests of both API groups, as the groups they stand for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity
from koord.kernels.quota import ROOT, GroupSpec

GUIDE_GROUP = "quota.koordinator.sh/v1alpha1"
CANONICAL_GROUP = "scheduling.sigs.k8s.io/v1alpha1"
GUIDE_PARENT = "koord-guide"
PREFIX = "quota.scheduling.koordinator.sh/"
MOST = 2**63 - 1
# Names stand in error lines and tables; the API server allows no more than these characters.
_NAME = re.compile(r"[-A-Za-z0-9._]+")
_RESOURCE = re.compile(r"[-A-Za-z0-9._/]+")
# What PyYAML raises on odd tags and values, beside its own errors.
_YAML_ERRORS = (ValueError, LookupError, AttributeError, TypeError, RecursionError)


@dataclass(frozen=True)
class QuotaObject:
    """One manifest.

    Attributes:
        label: file and object, as an error names it.
        group: the name in the tree: the object's, or NAMESPACE/NAME for the guide's kind.
        priority: the guide's kind has one, the canonical kind None.
        tree: id of the tree, ``""`` if the manifest leaves it to the parent.
        total: what the tree shares out, given by the tree's root object.
        deducted: the default tree pays for that total.
    """

    label: str
    namespace: str
    name: str
    group: str
    spec: GroupSpec
    priority: int | None = None
    tree: str = ""
    total: dict[str, int] | None = None
    deducted: bool = True
    kind: str = field(default="ElasticQuota", init=False)


def read_manifests(source: str, text: str) -> list[QuotaObject]:
    """All quotas of a text of YAML documents or one JSON document; lists are unfolded.

    Raises:
        KoordError: the text or an object in it is wrong; the line names source, object and field.
    """
    return [_decode(source, document) for document in _objects(source, _documents(source, text))]


def parse_amounts(label: str, path: str, value: object) -> dict[str, int]:
    """A resource list as integers rounded up: cpu in milli-units, all else in whole units."""
    amounts = {}
    for name, quantity in _mapping(label, path, value).items():
        if not _RESOURCE.fullmatch(name):
            raise KoordError(label, path, name, "a resource name such as cpu or nvidia.com/gpu")
        amounts[name] = _amount(label, f"{path}.{name}", name, quantity)
    return amounts


def _documents(source: str, text: str) -> Iterator[Any]:
    if text.lstrip().startswith(("{", "[")):
        # JSON may hold tabs, which YAML does not take; flow-style YAML falls through.
        try:
            yield json.loads(text)
            return
        except (ValueError, RecursionError):
            pass
    try:
        yield from yaml.safe_load_all(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        found = text.splitlines()[line - 1 : line]
        raise KoordError(f"{source}:{line}", "", found[0] if found else "the end",
                         f"YAML or JSON ({error.problem})") from None  # fmt: skip
    except (yaml.YAMLError, *_YAML_ERRORS) as error:
        raise KoordError(source, "", " ".join(str(error).split()), "YAML or JSON") from None


def _objects(source: str, documents: Iterator[Any]) -> Iterator[dict[str, Any]]:
    for document in documents:
        if document is None:
            continue
        items = document if isinstance(document, list) else [document]
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            items = document.get("items") or []
            if not isinstance(items, list):
                raise KoordError(source, "items", items, "a list of objects")
        for item in items:
            yield _mapping(source, "document", item)


def _decode(source: str, document: dict[str, Any]) -> QuotaObject:
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind != "ElasticQuota":
        raise KoordError(source, "kind", kind, "ElasticQuota")
    if version not in (GUIDE_GROUP, CANONICAL_GROUP):
        raise KoordError(source, "apiVersion", version, f"{CANONICAL_GROUP} or {GUIDE_GROUP}")
    metadata = _mapping(source, "metadata", document.get("metadata"))
    name = _name(source, "metadata.name", metadata.get("name"))
    namespace = _name(source, "metadata.namespace", metadata.get("namespace", "default"))
    label = f"{source}: ElasticQuota {namespace}/{name}"
    spec = _mapping(label, "spec", document.get("spec"))
    if version == GUIDE_GROUP:
        return _guide(label, namespace, name, spec)
    return _canonical(label, namespace, name, metadata, spec)


def _guide(label: str, namespace: str, name: str, spec: dict[str, Any]) -> QuotaObject:
    lists = {key: parse_amounts(label, f"spec.{key}", spec.get(key)) for key in ("hard", "max")}
    most = {
        resource: min(amounts[resource] for amounts in lists.values() if resource in amounts)
        for resource in {**lists["max"], **lists["hard"]}
    }
    least = parse_amounts(label, "spec.min", spec.get("min"))
    _check_range(label, least, most, spec)
    priority = spec.get("priority", 0)
    if type(priority) is not int or not -(2**31) <= priority < 2**31:
        raise KoordError(label, "spec.priority", priority, "an integer of 32 bits")
    group_spec = GroupSpec(GUIDE_PARENT, least, most, priority=priority)
    return QuotaObject(label, namespace, name, f"{namespace}/{name}", group_spec, priority)


def _canonical(
    label: str, namespace: str, name: str, metadata: dict[str, Any], spec: dict[str, Any]
) -> QuotaObject:
    labels = _mapping(label, "metadata.labels", metadata.get("labels"))
    annotations = _mapping(label, "metadata.annotations", metadata.get("annotations"))
    least = parse_amounts(label, "spec.min", spec.get("min"))
    most = parse_amounts(label, "spec.max", spec.get("max"))
    _check_range(label, least, most, spec)
    group_spec = GroupSpec(
        parent=_text(label, f"metadata.labels.{PREFIX}parent", labels.get(PREFIX + "parent"))
        or ROOT,
        min=least,
        max=most,
        weight=_lenient_amounts(annotations.get(PREFIX + "shared-weight")),
        is_parent=labels.get(PREFIX + "is-parent") == "true",
        allow_lent=labels.get(PREFIX + "allow-lent-resource") != "false",
    )
    tree = _text(label, f"metadata.labels.{PREFIX}tree-id", labels.get(PREFIX + "tree-id"))
    total = None
    if tree and labels.get(PREFIX + "is-root") == "true":
        total = _tree_total(label, annotations.get(PREFIX + "total-resource"))
    deducted = labels.get(PREFIX + "ignore-default-tree") != "true"
    return QuotaObject(
        label, namespace, name, name, group_spec, tree=tree, total=total, deducted=deducted
    )


def _check_range(
    label: str, least: dict[str, int], most: dict[str, int], spec: dict[str, Any]
) -> None:
    for resource, amount in least.items():
        if amount > most.get(resource, amount):
            limits = "max and hard" if "hard" in spec else "max"
            raise KoordError(label, f"spec.min.{resource}", spec["min"][resource],
                             f"no more than the spec's {limits}")  # fmt: skip


def _tree_total(label: str, text: object) -> dict[str, int] | None:
    if text in (None, ""):
        return None
    path = f"metadata.annotations.{PREFIX}total-resource"
    try:
        value = json.loads(str(text))
    except (ValueError, RecursionError):
        raise KoordError(label, path, text, "a resource list in JSON") from None
    return parse_amounts(label, path, value)


def _lenient_amounts(text: object) -> dict[str, int]:
    """A weight annotation; what cannot be read counts as missing, as in the scheduler."""
    try:
        return parse_amounts("", "", json.loads(str(text)))
    except (ValueError, RecursionError, KoordError):
        return {}


def _amount(label: str, path: str, resource: str, value: object) -> int:
    try:
        quantity = Quantity.from_wire(value)
        amount = quantity.milli() if resource == "cpu" else quantity.value()
    except ValueError as error:
        if resource == "cpu" and _is_whole(value):
            # The built-in groups' limit of "everything" has no place in milli-units.
            return MOST
        raise KoordError.wrap(label, path, error) from None
    if amount < 0:
        raise KoordError(label, path, value, "a quantity of 0 or more")
    return amount


def _is_whole(value: object) -> bool:
    try:
        return Quantity.from_wire(value).value() > 0
    except ValueError:
        return False


def _mapping(label: str, path: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    raise KoordError(label, path, value, "a mapping with text keys")


def _text(label: str, path: str, value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise KoordError(label, path, value, "a text (quote it)")


def _name(source: str, path: str, value: object) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise KoordError(f"{source}: ElasticQuota", path, value, "a name of letters, digits, - and .")
