# SPDX-License-Identifier: Apache-2.0
"""Labels, annotations and resources in koord's domains whose names nobody knows."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys, resources
from koord.api.protocol.documents import ALL_KEYS, LABELS
from koord.base.errors import nearest
from koord.check.problem import Finding
from koord.check.registry import ANY, checker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

_DOMAIN = "koordinator.sh"
_KEYS = sorted(ALL_KEYS)
_CLOSE, _VERY_CLOSE = 0.75, 0.9
_GANG_DOMAIN = "pod-group.scheduling.sigs.k8s.io"
_MODEL_SUFFIX = keys.DEVICE_MODEL.partition("{type}")[2]
_RESOURCES = sorted({
    value
    for name, value in vars(resources).items()
    if name.isupper() and isinstance(value, str) and "/" in value
})  # fmt: skip
_OURS = ("koordinator.sh/", "kubernetes.io/batch", "kubernetes.io/mid")


@checker(ANY)
def keys_of_metadata(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Keys that nobody reads, and labels that are written as annotations."""
    del world
    metadata = subject.document.get("metadata")
    for part in ("labels", "annotations"):
        found = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(found, dict):
            yield from key_findings(found, part)


def key_findings(values: Mapping[str, Any], field: str) -> Iterator[Finding]:
    """What is wrong with the keys of labels or annotations.

    Args:
        values: the map.
        field: where it stands; its last part says which of both it is.
    """
    for key in values:
        where = f"{field}[{key}]"
        if key in ALL_KEYS:
            if field.endswith("annotations") and key in LABELS:
                yield Finding.warning(where, key, "a label: as an annotation it says nothing")
        elif _is_ours(key) and not key.endswith(_MODEL_SUFFIX):
            guess = _nearest(key)
            if guess or not key.startswith(f"{_DOMAIN}/"):
                expected = "a key that koord knows" + (f", such as {guess}" if guess else "")
                yield Finding.warning(where, key, expected)


@checker("Pod", "")
def resource_names(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Resources that no component offers."""
    del world
    spec = subject.document.get("spec")
    for part in ("initContainers", "containers"):
        containers = spec.get(part) if isinstance(spec, dict) else None
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            asked = container.get("resources") if isinstance(container, dict) else None
            for side in ("requests", "limits"):
                amounts = asked.get(side) if isinstance(asked, dict) else None
                if isinstance(amounts, dict):
                    yield from resource_findings(amounts, f"spec.{part}[{index}].resources.{side}")


def resource_findings(amounts: Mapping[str, Any], field: str) -> Iterator[Finding]:
    """Names of resources in a list that look like koord's and are none."""
    for name in amounts:
        known = name in _RESOURCES or name in resources.DEPRECATED_NAMES
        if not known and name.startswith(_OURS):
            guess = nearest(name, _RESOURCES)
            expected = "a resource that koord knows" + (f", such as {guess}" if guess else "")
            yield Finding.warning(f"{field}[{name}]", name, expected)


def _nearest(key: str) -> str | None:
    """The known key that was most likely meant: one with that name, or one of the same domain.

    People have labels of their own in the plain domain, which are like none that is known.
    """
    domain, _, name = key.partition("/")
    anywhere = {each.partition("/")[2]: each for each in _KEYS if "/" in each}
    if name in anywhere:
        return anywhere[name]
    inside = {each.partition("/")[2]: each for each in _KEYS if each.startswith(f"{domain}/")}
    near = get_close_matches(name, list(inside), n=1, cutoff=_CLOSE)
    if near:
        return inside[near[0]]
    found = get_close_matches(key, _KEYS, n=1, cutoff=_VERY_CLOSE)
    return found[0] if found else None


def _is_ours(key: str) -> bool:
    domain = key.partition("/")[0]
    return domain == _DOMAIN or domain.endswith((f".{_DOMAIN}", _GANG_DOMAIN))
