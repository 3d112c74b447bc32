# SPDX-License-Identifier: Apache-2.0
"""What the controllers see of the cluster: one informer a kind, and their own writes at once.

A controller that decides from an informer alone would do things twice: the watch tells of a write
only later. A view takes over the answer of a write as if the watch had brought it, and ignores what
the watch then brings of older versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from koord.api.kinds.meta import Object
from koord.controlplane.controllers.base.objects import controller_of, key_of
from koord.kube.informers.indexer import Indexer
from koord.kube.informers.informer import is_newer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.registry import Kind
    from koord.kube.informers.indexer import IndexFunction
    from koord.kube.informers.informer import Informer

O = TypeVar("O", bound=Object)  # noqa: E741
Changed = Callable[[O | None, O | None], None]


def by_owner(value: Object) -> Iterable[str]:
    """Index: uid of the controller."""
    reference = controller_of(value.metadata)
    return (reference.uid,) if reference else ()


def orphans(value: Object) -> Iterable[str]:
    """Index: namespace, of what has no controller."""
    return () if controller_of(value.metadata) else (value.metadata.namespace,)


def by_namespace(value: Object) -> Iterable[str]:
    """Index: namespace."""
    return (value.metadata.namespace,)


class KindView(Generic[O]):
    """The objects of one kind.

    Args:
        kind: what is seen.
        project: the type that the informer decodes into.
        informer: what brings it; whoever owns the view runs it.
        indexers: besides ``owner``, ``orphans`` and ``namespace``.
    """

    def __init__(
        self,
        kind: Kind,
        project: type[O],
        informer: Informer[O],
        indexers: Mapping[str, IndexFunction[O]] | None = None,
    ) -> None:
        self.kind = kind
        self.project = project
        self.informer = informer
        self._objects: Indexer[O] = Indexer(
            {
                "owner": by_owner,
                "orphans": orphans,
                "namespace": by_namespace,
                **(indexers or {}),
            }
        )
        self._handlers: list[Changed[O]] = []
        # Written by us and not seen by the informer yet: key to version.
        self._unseen: dict[str, str] = {}
        self.informer.on_change(
            added=self._seen,
            updated=lambda _, value: self._seen(value),
            deleted=lambda value, _: self._drop(key_of(value.metadata), value.metadata.uid),
        )

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> O | None:
        """The object ``namespace/name``, or None."""
        return self._objects.get(key)

    def all(self) -> list[O]:
        """Every object."""
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[O]:
        """The objects that have a value in an index."""
        return self._objects.by_index(index, value)

    def on_change(self, handler: Changed[O]) -> None:
        """Calls ``handler(before, after)`` at every change; None for not there."""
        self._handlers.append(handler)

    def record_write(self, value: O) -> None:
        """Puts in what the server answered to a write of ours, before the watch brings it."""
        key = key_of(value.metadata)
        known = self.informer.get(key)
        version = value.metadata.resource_version
        if known is None and not is_newer(version, self.informer.resource_version):
            # The watch was faster, and the object has gone since.
            return
        if known is not None and not is_newer(version, known.metadata.resource_version):
            # The watch has brought it, or what came of it.
            return
        if _is_last(value):
            self._drop(key, value.metadata.uid)
            return
        self._unseen[key] = version
        self._put(key, value)

    def record_deletion(self, namespace: str, name: str, uid: str) -> None:
        """Marks an object whose deletion the server has accepted, before the watch says so."""
        key = f"{namespace}/{name}" if namespace else name
        value = self._objects.get(key)
        if value is None or value.metadata.uid != uid or value.metadata.deletion_timestamp:
            return
        # The server's own time comes with the watch; what counts is that there is one.
        marked = msgspec.structs.replace(
            value.metadata, deletion_timestamp=datetime.fromtimestamp(0, UTC)
        )
        self._replace(key, msgspec.structs.replace(value, metadata=marked))

    def clear(self) -> None:
        """Drops everything: the resource is no longer served."""
        for key, value in list(self._objects.items()):
            self._drop(key, value.metadata.uid)

    def drop_unconfirmed(self) -> None:
        """Drops what we made, the informer has passed, and is not there: gone before it was seen.

        Call it now and then.
        """
        reached = self.informer.resource_version
        for key, version in list(self._unseen.items()):
            if not is_newer(version, reached):
                del self._unseen[key]
                value = self._objects.get(key)
                if value is not None and self.informer.get(key) is None:
                    self._drop(key, value.metadata.uid)

    def _seen(self, value: O) -> None:
        key = key_of(value.metadata)
        version = self._unseen.get(key)
        if version is not None and not is_newer(version, value.metadata.resource_version):
            del self._unseen[key]
        self._put(key, value)

    def _put(self, key: str, value: O) -> None:
        old = self._objects.get(key)
        if old is not None:
            had, has = old.metadata.resource_version, value.metadata.resource_version
            if not is_newer(has, had):
                return
            if old.metadata.uid != value.metadata.uid:
                self._drop(key, old.metadata.uid)
        self._replace(key, value)

    def _replace(self, key: str, value: O) -> None:
        old = self._objects.get(key)
        self._objects.put(key, value)
        for handler in self._handlers:
            handler(old, value)

    def _drop(self, key: str, uid: str) -> None:
        old = self._objects.get(key)
        if old is None or old.metadata.uid != uid:
            return
        self._objects.remove(key)
        for handler in self._handlers:
            handler(old, None)


def _is_last(value: Object) -> bool:
    """Whether this is the last state of an object: nothing holds it back any more."""
    metadata, spec = value.metadata, getattr(value, "spec", None)
    held = metadata.finalizers or metadata.deletion_grace_period_seconds
    # Namespaces are held back by their spec.
    held = held or (isinstance(spec, dict) and spec.get("finalizers"))
    return metadata.deletion_timestamp is not None and not held
