# SPDX-License-Identifier: Apache-2.0
"""What an API server would refuse or drop: unknown fields, types, required fields, values.

The embedded control plane's own rules, which are kube-apiserver's; nothing is stored.
"""

from __future__ import annotations

import random
import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.errors import nearest
from koord.check.problem import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.patching.shapes import Shape
    from koord.base.documents import Document
    from koord.check.subject import Subject
    from koord.controlplane.catalog import Catalog
    from koord.controlplane.resource import Resource
    from koord.kube.errors import ApiError, StatusCause

_NEARLY = 0.8
# Times and names that an object gets are not looked at.
_NOW = "2030-01-02T03:04:05Z"
_UNKNOWN = re.compile(r'unknown field "(.*)"', re.DOTALL)
_MISTYPED = re.compile(r"cannot unmarshal .* into Go struct field \w+\.([\w.-]+) of type (.*)")
_GIVEN = re.compile(
    r'(Invalid|Unsupported|Duplicate) value: ("(?:[^"\\]|\\.)*"|[^:]*)(?:: |\Z)', re.DOTALL
)
_COUNTED = re.compile(r"in body should have at (?:least|most)")
_IN_BODY = re.compile(r"^\S+ in body (?:should (?:have|be) |should |must be (?:of type )?)")
_HEADS = {
    "Required value: ": "",
    "Required value": "a value",
    "Forbidden: ": "",
    "Too long: may not be ": "",
    "Too many: ": "",
    "supported values: ": "one of ",
}
_GO_TYPES = {"string": "text", "bool": "true or false"}


@cache
def catalog() -> Catalog:
    """Kubernetes' kinds and koord's."""
    from koord.api.definitions import crds
    from koord.controlplane.catalog import Catalog
    from koord.controlplane.customresources.definitions import custom_resources
    from koord.controlplane.kinds import registry

    found = Catalog(registry.resources())
    for definition in crds():
        found.add(custom_resources(definition))
    return found


def refusals(subject: Subject) -> Iterator[Finding]:
    """What a server says of creating an object; nothing of a kind that it does not serve."""
    resource = catalog().of_kind(subject.api_version, subject.kind)
    if resource is None:
        yield from _misspelt(subject)
        return
    from koord.kube.errors import ApiError

    try:
        body = msgspec.json.encode(subject.document)
        document, told = resource.schema.decode(body, "Warn")
        for line in told:
            yield from _unknown(line, resource.schema.shape)
        for cause in _causes(resource, document):
            yield _of_cause(cause, subject)
    except ApiError as error:
        yield _of_error(error, subject)
        yield from _unknown_fields(subject.document, resource.schema.shape)


def _misspelt(subject: Subject) -> Iterator[Finding]:
    """A kind that is nearly one of its API version; the table lacks some that Kubernetes has."""
    kinds = [each.kind for each in catalog().resources() if each.api_version == subject.api_version]
    near = get_close_matches(subject.kind, kinds, n=1, cutoff=_NEARLY)
    if near:
        expected = f"a kind of {subject.api_version}, such as {near[0]}"
        yield Finding("kind", subject.kind, expected)


def defaulted(document: Document) -> Document:
    """A copy of a document with the defaults of its kind's schema."""
    resource = catalog().of_kind(str(document.get("apiVersion")), str(document.get("kind")))
    copied: Document = msgspec.json.decode(msgspec.json.encode(document))
    if resource is not None:
        resource.schema.default(copied)
    return copied


def _causes(resource: Resource, document: Document) -> list[StatusCause]:
    """As :meth:`koord.controlplane.handlers.write.Verbs.create` finds them."""
    from koord.controlplane.handlers import metadata
    from koord.controlplane.kinds.validation import object_meta
    from koord.controlplane.resource import Context

    meta = metadata.metadata_of(document)
    # Objects that were read from a cluster may be given to the check as well.
    meta.pop("resourceVersion", None)
    namespace = str(meta.get("namespace") or "default") if resource.namespaced else ""
    metadata.begin(resource, document, namespace, _NOW, random.Random(0))
    resource.strategy.default(document)
    resource.schema.default(document)
    resource.strategy.prepare_create(document, Context(_NOW))
    causes = list(object_meta.validate_create(resource, document))
    return [*causes, *resource.schema.validate(document), *resource.strategy.validate(document)]


def _unknown(line: str, shape: Shape) -> Iterator[Finding]:
    match = _UNKNOWN.fullmatch(line)
    if match is not None:
        parent, _, name = match[1].rpartition(".")
        yield _unknown_field(match[1], name, _fields_at(shape, parent))


def _unknown_fields(value: Any, shape: Shape, path: str = "") -> Iterator[Finding]:
    """The unknown fields of a document that a server stops reading for another reason."""
    if isinstance(value, list) and shape.element is not None:
        for index, item in enumerate(value):
            yield from _unknown_fields(item, shape.element, f"{path}[{index}]")
    for key, inner in value.items() if isinstance(value, dict) else ():
        inside = f"{path}.{key}" if path else key
        field = shape.fields.get(key)
        if field is not None:
            yield from _unknown_fields(inner, field.shape, inside)
        elif shape.element is not None:
            yield from _unknown_fields(inner, shape.element, inside)
        elif shape.fields and not shape.open:
            yield _unknown_field(inside, key, list(shape.fields))


def _unknown_field(path: str, name: str, known: list[str]) -> Finding:
    guess = nearest(name, known)
    if guess:
        expected = f"a known field, such as {guess}"
    else:
        expected = f"one of {', '.join(known)}" if known else "a known field"
    return Finding(path, name, expected)


def _fields_at(shape: Shape, path: str) -> list[str]:
    """The fields that the struct at a path knows."""
    for name in re.findall(r"[^.\[\]]+", path):
        if shape.fields:
            field = shape.fields.get(name)
            if field is None:
                return []
            shape = field.shape
        elif shape.element is not None:
            shape = shape.element
        else:
            return []
    return list(shape.fields)


def _of_cause(cause: StatusCause, subject: Subject) -> Finding:
    """A server's cause in koord's words; what it says of the value becomes the value."""
    path = "" if cause.field == "<nil>" else cause.field
    place = subject.locate(path)
    match = _GIVEN.match(cause.message)
    if match is None:
        value = place.value if place.is_whole and cause.reason != "FieldValueRequired" else None
        return Finding(path, value, _right(cause.message))
    value = _json(match[2])
    if isinstance(place.value, dict) and isinstance(value, str):
        # Of a map of labels a server does not say which is wrong.
        key = next((k for k, v in place.value.items() if value in (k, v)), None)
        path = path if key is None else f"{path}[{key}]"
    elif place.is_whole and _COUNTED.search(cause.message):
        value = place.value
    if match[1] == "Duplicate":
        return Finding(path, value, "a value used once")
    return Finding(path, value, _right(cause.message[match.end() :]))


def _right(cause_text: str) -> str:
    """What would be right, in what a server says is wrong."""
    if cause_text.startswith("Not found: "):
        return "the name of something that is there"
    for head, words in _HEADS.items():
        if cause_text.startswith(head):
            cause_text = words + cause_text.removeprefix(head)
    return _IN_BODY.sub("", cause_text).removeprefix("must be ").partition(" (e.g. ")[0]


def _of_error(error: ApiError, subject: Subject) -> Finding:
    """A body that cannot be read: the field's path has no indices then."""
    match = _MISTYPED.search(error.status.message)
    if match is None:
        cause_text = error.status.message.rpartition(" cannot be handled as a ")[2]
        return Finding("", None, cause_text.partition(": ")[2] or cause_text)
    wanted = match[2]
    kind = "a list" if wanted.startswith("[]") else _GO_TYPES.get(wanted, "a mapping")
    if wanted.startswith(("int", "float")):
        kind = "a number"
    path, value = _mistyped(subject.document, match[1].split("."), wanted)
    return Finding(path, value, kind)


def _mistyped(document: Any, names: list[str], wanted: str) -> tuple[str, Any]:
    """The first place of these names, in any item of lists, whose value is of another type."""
    right: tuple[type, ...] = (dict,)
    for head, types in (("[]", (list,)), ("string", (str,)), ("bool", (bool,)),
                        ("int", (int,)), ("float", (int, float))):  # fmt: skip
        if wanted.startswith(head):
            right = types
    left: list[tuple[str, Any, int]] = [("", document, 0)]
    while left:
        path, value, depth = left.pop()
        if depth < len(names) and isinstance(value, dict) and names[depth] in value:
            inner = f"{path}.{names[depth]}".lstrip(".")
            left.append((inner, value[names[depth]], depth + 1))
        elif isinstance(value, list) and list not in right:
            left += [(f"{path}[{i}]", item, depth) for i, item in reversed([*enumerate(value)])]
        elif depth == len(names) and isinstance(value, dict) and dict not in right:
            left += [(f"{path}[{key}]", item, depth) for key, item in value.items()]
        elif depth == len(names) and (
            not isinstance(value, right) or (isinstance(value, bool) and bool not in right)
        ):
            return path, value
    return ".".join(names), None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
