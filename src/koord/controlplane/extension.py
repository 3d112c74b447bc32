# SPDX-License-Identifier: Apache-2.0
"""Where kinds, admission rules and further APIs are plugged into the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from koord.base.documents import Document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controlplane.resource import Context, Resource
    from koord.kube.transport.messages import Request, Response


class Reader(Protocol):
    """What is stored, as rules look it up; resources are named by storage, e.g. ``jobs.batch``."""

    def document(self, storage: str, namespace: str, name: str) -> Document | None:
        """A fresh copy of one object; None where there is none. Namespace "" if cluster-wide."""
        ...

    def documents(self, storage: str, namespace: str = "") -> Iterator[Document]:
        """Fresh copies of all objects, of one namespace or of all, in order of their keys."""
        ...

    def generation(self, *storages: str) -> int:
        """A number; another one whenever any object of these resources is. For caches."""
        ...


@dataclass
class Attributes:
    """One write, as admission sees it.

    Attributes:
        operation: CREATE, UPDATE, DELETE or CONNECT.
        resource: what is written, at the version of the request.
        subresource: ``""`` for the object itself.
        document: the object; rules change it in place. None for DELETE.
        old: the object as stored; None for CREATE. Never changed.
        options: the ``CreateOptions``, ``UpdateOptions``, ``PatchOptions`` or ``DeleteOptions``.
        warnings: texts for ``Warning`` headers; rules append.
        has_generated_name: whether the name is the server's, which mutating webhooks do not see.
        on_stored: called in the step that stores the object; rules that count append.
    """

    operation: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    document: Document | None
    old: Document | None
    context: Context
    options: Document = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    on_stored: list[Callable[[], None]] = field(default_factory=list)
    has_generated_name: bool = False


class Admission(Protocol):
    """Rules between a request and the store. Without webhooks neither method ever suspends."""

    def generation(self, namespace: str, plural: str, subresource: str = "") -> int | None:
        """What the rules of a create go by besides the request, as a number that never comes again.

        Where it is the same, the same document fares the same. None: nobody can tell.

        Args:
            namespace: of the object.
            plural: of its resource.
            subresource: that is created, such as ``binding``; empty for the object itself.
        """
        ...

    def looks_inside(self, namespace: str) -> bool:
        """Whether rules of a create go by what stands in the parts of a spec.

        That is, in what :meth:`koord.controlplane.resource.Strategy.split` takes for parts. It
        stays as it is while :meth:`generation` is the same.
        """
        ...

    async def mutate(self, attributes: Attributes) -> None:
        """Changes the document, or raises ApiError. Runs before validation."""
        ...

    async def validate(self, attributes: Attributes) -> None:
        """Raises ApiError to refuse. Runs last, changes nothing."""
        ...


class AdmitAll:
    """No rules."""

    def generation(self, namespace: str, plural: str, subresource: str = "") -> int | None:
        """Always the same."""
        return 0

    def looks_inside(self, namespace: str) -> bool:
        """Never."""
        return False

    async def mutate(self, attributes: Attributes) -> None:
        """Changes nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Refuses nothing."""


class VirtualApi(Protocol):
    """Serves a whole group that is not stored, e.g. ``/apis/metrics.k8s.io``."""

    @property
    def resources(self) -> Sequence[Resource]:
        """What discovery lists of it."""
        ...

    async def __call__(self, request: Request) -> Response:
        """Answers a request below the prefix at which the API is mounted, or raises ApiError."""
        ...
