# SPDX-License-Identifier: Apache-2.0
"""What the server knows of one resource: how it is named, how it behaves, how it looks in a table.

Documents are plain JSON values (dicts, lists, scalars). A strategy changes them in place and is
stateless, so that one instance serves every request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from koord.base.documents import Document
from koord.controlplane.ages import age

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.patching.shapes import Shape
    from koord.kernels.splitter import SplitObject
    from koord.kube.errors import StatusCause


class Context(msgspec.Struct, frozen=True, gc=False):
    """What surrounds one request.

    Attributes:
        now: wall time as RFC 3339 in whole seconds, e.g. ``2030-01-02T03:04:05Z``.
        user: who asks.
        groups: what the user belongs to.
        uid: of the user; empty where it is not known.
        extra: what else is known of the user.
        manager: field manager that the request names or that its user agent implies.
        dry_run: whether nothing must be stored.
    """

    now: str
    user: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    manager: str = "unknown"
    dry_run: bool = False
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class Column:
    """One column of ``kubectl get``; the fields are those of ``TableColumnDefinition``.

    Attributes:
        priority: 0 is always shown, 1 with ``-o wide``.
    """

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class ScalePaths:
    """Where the scale subresource finds its numbers: dotted paths, without a leading dot."""

    spec_replicas: str
    status_replicas: str
    selector: str


class Schema(Protocol):
    """The shape of a kind: types, unknown fields, defaults, merge rules."""

    @property
    def shape(self) -> Shape:
        """Of the whole document, for patches and managed fields."""
        ...

    def decode(self, body: bytes, field_validation: str) -> tuple[Document, list[str]]:
        """The document of a request body, without fields that the schema does not know.

        Args:
            body: JSON.
            field_validation: ``Strict`` refuses unknown and repeated fields, ``Warn`` tells of
                them, ``Ignore`` drops them in silence.

        Returns:
            The document and the warnings.

        Raises:
            ApiError: 400, no JSON, a field of the wrong type, or (Strict) an unknown one.
        """
        ...

    def prune(self, document: Document) -> list[str]:
        """Drops unknown fields, as after a patch; gives their paths.

        Raises:
            ApiError: 422, what the patch made has a field of the wrong type.
        """
        ...

    def default(self, document: Document) -> None:
        """Fills in the schema's own defaults (custom resources only)."""
        ...

    def validate(self, document: Document, old: Document | None = None) -> list[StatusCause]:
        """What breaks the schema (custom resources); types of core kinds fail in ``decode``."""
        ...


class StoredParts(NamedTuple):
    """What a create makes of the parts of a spec.

    Attributes:
        texts: of the members that are parts, in their order.
        status: text of the object's status.
    """

    texts: list[bytes]
    status: bytes


class Strategy:
    """How objects of one resource behave. This base is a plain object with a free ``spec``.

    Attributes:
        status_subresource: status is written through ``/status`` alone.
        scale: paths of the scale subresource; None for none.
        graceful: deletion first marks the object and waits for its keeper (pods).
        generation: ``metadata.generation`` counts changes of what is not metadata or status.
        create_on_update: PUT creates what is not there (leases, for one).
        unconditional_update: PUT without a resourceVersion is allowed.
        columns: of the table; ``row`` gives one cell for each.
        selectable: field labels that field selectors may name, besides ``metadata.name`` and
            ``metadata.namespace``.
        returns_deleted: the answer to a deletion is the object, not a ``Status``.
        any_finalizer: finalizers need no domain.
        cleanup_finalizer: given to an object when its deletion begins; empty for none.
        closed: why nothing new can be created now; empty if it can.
        has_templates: objects come in many that differ in their metadata alone; see
            :meth:`repeats`.
        converts: ``to_storage`` and ``from_storage`` do something (one kind under two versions
            whose fields differ).
    """

    status_subresource: bool = False
    scale: ScalePaths | None = None
    graceful: bool = False
    generation: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    columns: Sequence[Column] = (
        Column("Name", format="name"),
        Column("Age", format=""),
    )
    selectable: tuple[str, ...] = ()
    returns_deleted: bool = False
    any_finalizer: bool = False
    cleanup_finalizer: str = ""
    closed: str = ""
    has_templates: bool = False
    converts: bool = False

    def default(self, document: Document) -> None:
        """Fills in what Kubernetes fills in for this kind, on create and update."""

    def prepare_create(self, document: Document, context: Context) -> None:
        """Sets what only the server may set; drops a status that came along."""
        if self.status_subresource:
            document.pop("status", None)

    def prepare_update(self, document: Document, old: Document, context: Context) -> None:
        """Brings over from the old object what an update of the main resource cannot change."""
        if self.status_subresource:
            _bring(document, old, "status")

    def prepare_status(self, document: Document, old: Document, context: Context) -> None:
        """Brings over everything that an update of ``/status`` cannot change."""
        for key in [key for key in document if key not in ("status", "metadata")]:
            del document[key]
        for key, value in old.items():
            if key not in ("status", "metadata"):
                document[key] = value

    def prepare_subresource(
        self, subresource: str, document: Document, old: Document, context: Context
    ) -> None:
        """Brings over what an update of a subresource without a handler cannot change."""
        self.prepare_status(document, old, context)

    def to_storage(self, document: Document) -> None:
        """Turns a document of this version into the stored one; apiVersion is set by the server."""

    def from_storage(self, document: Document) -> None:
        """The way back of :meth:`to_storage`."""

    def repeats(self, spec: Document) -> bool:
        """Whether all of a new object but its metadata follows from its spec alone.

        With the same spec, another object then has the same spec and status as stored and the
        same selectable fields, whatever its metadata (finalizers and managed fields aside).
        """
        return False

    def split(self, spec: bytes) -> SplitObject | None:
        """The members of a new object's spec; None where it may only be read as a whole.

        Of specs for which :meth:`repeats`, and which no rule of admission looks into: with the
        same frame and good parts, all of an object but its parts is the same.

        Args:
            spec: JSON of an object.
        """
        return None

    def stored_parts(self, spec: SplitObject) -> StoredParts | None:
        """What a create makes of a spec's parts; None if something may be wrong with one."""
        return None

    def validate(self, document: Document) -> list[StatusCause]:
        """What is wrong with a new object, beyond its schema and metadata."""
        return []

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """What is wrong with a change, beyond schema and metadata; also calls for immutability."""
        return self.validate(document)

    def validate_subresource(
        self, subresource: str, document: Document, old: Document
    ) -> list[StatusCause]:
        """What is wrong with a change through a subresource that has no handler."""
        return self.validate_update(document, old)

    def grace_period_seconds(self, document: Document, requested: int | None) -> int:
        """How long a graceful deletion waits; 0 deletes at once."""
        return 0

    def prepare_delete(self, document: Document, context: Context) -> None:
        """Changes an object that is marked for deletion and stays for now."""

    def stays(self, document: Document) -> bool:
        """Whether a deleted object stays for a reason beside grace and finalizers."""
        return False

    def fields(self, document: Document) -> Mapping[str, str]:
        """The values of :attr:`selectable`, in that order of names."""
        return {}

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        return [metadata["name"], age(metadata.get("creationTimestamp"), now_seconds)]


@dataclass(frozen=True)
class Resource:
    """One resource at one version.

    Attributes:
        group: API group, ``""`` for the core.
        version: e.g. ``v1``.
        kind: e.g. ``Pod``.
        plural: as in URLs.
        namespaced: whether objects live in namespaces.
        schema: shape of the kind at this version.
        strategy: behaviour of the kind.
        storage: key under which all versions share their objects: ``plural.group``.
        storage_api_version: apiVersion that stored documents carry.
        subresources: besides the main one, e.g. ``("status", "binding", "eviction")``.
        verbs: what discovery lists.
        warning: told with every answer, e.g. that the version is deprecated.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    schema: Schema
    strategy: Strategy = field(default_factory=Strategy)
    storage: str = ""
    storage_api_version: str = ""
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    warning: str = ""
    verbs: tuple[str, ...] = (
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    )  # fmt: skip

    def __post_init__(self) -> None:
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        for name, value in (
            ("storage", qualified),
            ("storage_api_version", self.api_version),
            ("singular", self.kind.lower()),
            ("list_kind", f"{self.kind}List"),
        ):
            if not getattr(self, name):
                object.__setattr__(self, name, value)

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


def _bring(document: Document, old: Document, key: str) -> None:
    if key in old:
        document[key] = old[key]
    else:
        document.pop(key, None)
