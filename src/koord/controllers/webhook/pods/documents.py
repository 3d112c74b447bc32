# SPDX-License-Identifier: Apache-2.0
"""Parts of a pod's document, which has been read as a Pod: of the right types, but for nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.documents import Document


class ContainerPart(NamedTuple):
    """One container.

    Attributes:
        path: where it stands, e.g. ``spec.containers[0]``.
        document: of the container; changes change the pod.
    """

    path: str
    document: Document

    @property
    def name(self) -> str:
        """The container's name."""
        return self.document.get("name") or ""


def child(parent: Document, key: str) -> Document:
    """The object below a key, made where there is none; changes change the parent."""
    found: Document | None = parent.get(key)
    if found is None:
        found = parent[key] = {}
    return found


def present(parent: Document | None, key: str) -> Document:
    """The object below a key to look at; an empty one of its own where there is none."""
    return (parent.get(key) if parent is not None else None) or {}


def app_containers(pod: Document) -> Iterator[ContainerPart]:
    """The containers that run together."""
    return _containers(pod, "containers")


def all_containers(pod: Document) -> Iterator[ContainerPart]:
    """Init containers, then the others."""
    yield from _containers(pod, "initContainers")
    yield from _containers(pod, "containers")


def _containers(pod: Document, key: str) -> Iterator[ContainerPart]:
    for index, document in enumerate(present(pod, "spec").get(key) or ()):
        yield ContainerPart(f"spec.{key}[{index}]", document)
