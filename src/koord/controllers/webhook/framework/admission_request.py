# SPDX-License-Identifier: Apache-2.0
"""What an API server asks a webhook; its objects stay bytes until somebody reads them.

Rule: docs/reference/admission.md#webhooks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from koord.api.codec import decode_json
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.base.documents import Document

KindT = TypeVar("KindT")


class Operation(StrEnum):
    """What is done to the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(frozen=True)
class ResourceName:
    """A resource, or a subresource of one, as in ``pods/binding``.

    Attributes:
        group: empty for the core group.
        resource: in the plural.
        subresource: empty for the object itself.
    """

    group: str
    resource: str
    subresource: str = ""


@dataclass(frozen=True)
class Requester:
    """Who asks for the change, as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class AdmissionRequest:
    """One request.

    Attributes:
        uid: comes back in the answer.
        operation: what is done.
        kind: of the object, e.g. ``Pod``.
        resource: what it is done to; ``version`` is that of the objects.
        namespace: of the object; empty for what is in none.
        name: empty where the server is still to make one from ``generateName``.
        requester: who asks.
        dry_run: nothing may be written because of it.
        raw_object: JSON of the object as it is to be; None on DELETE.
        raw_old_object: JSON of the object as it is; None on CREATE.
    """

    uid: str
    operation: Operation
    kind: str
    resource: ResourceName
    version: str = "v1"
    namespace: str = ""
    name: str = ""
    requester: Requester = field(default_factory=Requester)
    dry_run: bool = False
    raw_object: bytes | None = None
    raw_old_object: bytes | None = None

    @property
    def title(self) -> str:
        """The object as errors name it, e.g. ``Pod default/a``."""
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {path}"

    def document(self) -> Document:
        """The object as it is to be, as JSON values; the caller's own.

        Raises:
            KoordError: there is none, or it cannot be read.
        """
        return self._decoded(self.raw_object, "object", dict[str, Any])

    def old_document(self) -> Document:
        """The object as it is.

        Raises:
            KoordError: there is none, or it cannot be read.
        """
        return self._decoded(self.raw_old_object, "oldObject", dict[str, Any])

    def decode(self, kind: type[KindT]) -> KindT:
        """The object as it is to be, as a struct of :mod:`koord.api.kinds`.

        Raises:
            KoordError: there is none, or it cannot be read.
        """
        return self._decoded(self.raw_object, "object", kind)

    def decode_old(self, kind: type[KindT]) -> KindT:
        """The object as it is, as a struct.

        Raises:
            KoordError: there is none, or it cannot be read.
        """
        return self._decoded(self.raw_old_object, "oldObject", kind)

    def _decoded(self, raw: bytes | None, field_name: str, kind: type[KindT]) -> KindT:
        if raw is None:
            expected = f"an object, which {self.operation} has"
            raise KoordError(self.title, field_name, None, expected)
        return decode_json(raw, kind, self.title)
