# SPDX-License-Identifier: Apache-2.0
"""The objects of an installed Koordinator: from files, or from a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.kinds.registry import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koord.base.documents import Document

PROGRAMS = (
    "koord-scheduler", "koord-manager", "koord-descheduler", "koordlet", "koord-device-daemon",
    "koord-runtime-proxy",
)  # fmt: skip
_PART_OF = "app.kubernetes.io/part-of"
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")


def _kind(group: str, version: str, name: str, plural: str, *, namespaced: bool) -> Kind:
    return Kind(group, version, name, plural, namespaced, "")


CONFIG_MAP = _kind("", "v1", "ConfigMap", "configmaps", namespaced=True)
LEASE = _kind("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
CRD = _kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition",
            "customresourcedefinitions", namespaced=False)  # fmt: skip
MUTATING, VALIDATING = (
    _kind("admissionregistration.k8s.io", "v1", f"{name}WebhookConfiguration",
          f"{name.lower()}webhookconfigurations", namespaced=False)
    for name in ("Mutating", "Validating")
)  # fmt: skip
WORKLOAD_KINDS = (
    _kind("apps", "v1", "Deployment", "deployments", namespaced=True),
    _kind("apps", "v1", "DaemonSet", "daemonsets", namespaced=True),
    _kind("apps", "v1", "StatefulSet", "statefulsets", namespaced=True),
)
READ = (*WORKLOAD_KINDS, CRD, MUTATING, VALIDATING)
"""Kinds that are read whole; ConfigMaps and Leases are read by name."""


@dataclass(frozen=True)
class RunningProgram:
    """A container of the installation that runs one of its programs.

    Attributes:
        name: one of :data:`PROGRAMS`.
        workload: the object.
        container: of its pod template.
    """

    name: str
    workload: Document
    container: dict[str, Any]

    @property
    def namespace(self) -> str:
        """That the program runs in."""
        return str(self.workload.get("metadata", {}).get("namespace") or "default")

    @property
    def is_moved(self) -> bool:
        """Whether its pods are of koord's chart, so that the program is koord's."""
        meta = self.workload.get("spec", {}).get("template", {}).get("metadata") or {}
        return (meta.get("labels") or {}).get(_PART_OF) == "koord"

    @property
    def arguments(self) -> list[str]:
        """Its command line without the program."""
        command, arguments = (_texts(self.container.get(name)) for name in ("command", "args"))
        return [*command[1:], *arguments]

    @property
    def source(self) -> str:
        """The object and the image's tag, for people."""
        name = self.workload.get("metadata", {}).get("name")
        tag = str(self.container.get("image", "")).rpartition("/")[2].partition(":")[2]
        title = f"{self.workload.get('kind')} {self.namespace}/{name}"
        return f"{title}, {tag}" if tag else title

    def flag(self, name: str) -> str | None:
        """The value of a flag; None where it is not given. The last one counts."""
        found = None
        words = self.arguments
        for index, word in enumerate(words):
            head, equals, value = word.lstrip("-").partition("=")
            if word.startswith("-") and head == name:
                follows = words[index + 1] if index + 1 < len(words) else ""
                found = value if equals else follows
        return found

    def config_map(self, path: str) -> tuple[str, str] | None:
        """The ConfigMap, and the key in it, that a path in the container shows; None if another."""
        for mount in self.container.get("volumeMounts") or ():
            folder = str(mount.get("mountPath", "")).rstrip("/")
            if path == folder and mount.get("subPath"):
                path_in_volume = str(mount["subPath"])
            elif path.startswith(f"{folder}/"):
                path_in_volume = path.removeprefix(f"{folder}/")
            else:
                continue
            for volume in self._volumes():
                source = (
                    volume.get("configMap") if volume.get("name") == mount.get("name") else None
                )
                if source:
                    return str(source.get("name")), _key(source, path_in_volume)
        return None

    def _volumes(self) -> Iterable[dict[str, Any]]:
        return _pod_spec(self.workload).get("volumes") or ()


def running_programs(documents: Iterable[Document]) -> Iterator[RunningProgram]:
    """The containers that run the original's programs, in the order of :data:`PROGRAMS`."""
    found = [
        RunningProgram(name, document, container)
        for document in documents
        if document.get("kind") in WORKLOADS
        for container in _pod_spec(document).get("containers") or ()
        if (name := _program(container)) in PROGRAMS
    ]
    yield from sorted(found, key=lambda each: (PROGRAMS.index(each.name), each.source))


def _program(container: dict[str, Any]) -> str:
    command = _texts(container.get("command"))
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    return (command[0] if command else image).rpartition("/")[2]


def _pod_spec(document: Document) -> dict[str, Any]:
    spec = document.get("spec", {}).get("template", {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _key(source: dict[str, Any], path_in_volume: str) -> str:
    for item in source.get("items") or ():
        if item.get("path") == path_in_volume:
            return str(item.get("key"))
    return path_in_volume


def _texts(value: object) -> Sequence[str]:
    return [str(each) for each in value] if isinstance(value, list) else []
