# SPDX-License-Identifier: Apache-2.0
"""LimitRanges: what containers ask for where they say nothing, and the least and most they may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.admission.plugin import AdmissionPlugin, LookupCache
from koord.controlplane.api_errors import forbidden
from koord.controlplane.kinds.validation.quantities import parsed

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controlplane.extension import Attributes, Reader

LIMIT_RANGES = "limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))


class LimitRanger(AdmissionPlugin):
    """Kubernetes' plugin LimitRanger, for items of type Container."""

    mutates = True
    validates = True
    resources = ("pods",)
    depends_on = (LIMIT_RANGES,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._ranges = LookupCache(reader, LIMIT_RANGES, self._look_up)

    def looks_inside(self, namespace: str) -> bool:
        """Where there are limits."""
        return bool(self._ranges.get(namespace))

    def mutate(self, attributes: Attributes) -> None:
        """Fills in default limits and requests of a new pod's containers."""
        if not _is_new_pod(attributes):
            return
        assert attributes.document is not None
        told: list[str] = []
        for item in self._ranges.get(attributes.namespace):
            for kind, word in _CONTAINERS:
                for container in attributes.document["spec"].get(kind) or ():
                    _fill(container, item, word, told)
        if told:
            annotations = attributes.document["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"

    def validate(self, attributes: Attributes) -> None:
        """Refuses a new pod with a container below the minimum or above the maximum."""
        if not _is_new_pod(attributes):
            return
        assert attributes.document is not None
        faults: list[str] = []
        for item in self._ranges.get(attributes.namespace):
            for container in _containers(attributes.document):
                _compare(container.get("resources") or {}, item, faults)
        if faults:
            why = faults[0] if len(faults) == 1 else f"[{', '.join(dict.fromkeys(faults))}]"
            raise forbidden(attributes.resource, attributes.name, why)

    def _look_up(self, namespace: str) -> list[Document]:
        return [
            item
            for document in self._reader.documents(LIMIT_RANGES, namespace)
            for item in document.get("spec", {}).get("limits") or ()
            if item.get("type") == "Container"
        ]


def _is_new_pod(attributes: Attributes) -> bool:
    return (
        attributes.resource.storage == "pods"
        and attributes.operation == "CREATE"
        and not attributes.subresource
    )


def _containers(pod: Document) -> list[Document]:
    spec = pod["spec"]
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _fill(container: Document, item: Document, word: str, notes: list[str]) -> None:
    """Puts defaults where a container says nothing; adds what was put where."""
    resources = container.setdefault("resources", {})
    for kind, bound in (("requests", "defaultRequest"), ("limits", "default")):
        given, defaults = resources.get(kind) or {}, item.get(bound) or {}
        if missing := sorted(defaults.keys() - given.keys()):
            resources[kind] = {**defaults, **given}
            what = f"{kind.removesuffix('s')} for {word} {container.get('name', '')}"
            notes.append(f"{', '.join(missing)} {what}")


def _compare(resources: Document, item: Document, faults: list[str]) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, least in (item.get("min") or {}).items():
        request, limit = requests.get(name), limits.get(name)
        what = f"minimum {name} usage per Container is {least}"
        if request is None:
            faults.append(f"{what}.  No request is specified")
        elif parsed(request) < parsed(least):
            faults.append(f"{what}, but request is {request}")
        elif limit is not None and parsed(limit) < parsed(least):
            faults.append(f"{what}, but limit is {limit}")
    for name, most in (item.get("max") or {}).items():
        request, limit = requests.get(name), limits.get(name)
        what = f"maximum {name} usage per Container is {most}"
        if limit is None:
            faults.append(f"{what}.  No limit is specified")
        elif parsed(limit) > parsed(most):
            faults.append(f"{what}, but limit is {limit}")
        elif request is not None and parsed(request) > parsed(most):
            faults.append(f"{what}, but request is {request}")
