# SPDX-License-Identifier: Apache-2.0
"""Objects that stand beside nodes: one of a kind for each node, of its name, with a spec of ours.

Rule: docs/reference/nodeslo.md#objects-beside-nodes. Every event is looked at without a request:
only an object that is not as it should be gets into the queue.
"""

from __future__ import annotations

import asyncio
import operator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from koord.api import codec
from koord.api.draft import merge_patch
from koord.api.kinds.meta import Object, ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.registry import kind_of_type
from koord.api.protocol import keys
from koord.base import faults
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, is_definition_going
from koord.kube.patches import Patch, preconditions_of
from koord.kube.transport.messages import MERGE_PATCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.manager.dependencies import ControllerDependencies
    from koord.controllers.manager.metrics import OutcomeCounts

_WORKERS = 8
_NOT_FOUND, _CONFLICT = 404, 409
# The cache is about to hear of what somebody else wrote.
_AGAIN_SECONDS = 0.2
# By then the cache has mostly heard that the kind is gone.
_GOING_SECONDS = 5.0
# Nodes that a sweep looks at before others get a turn.
_CHUNK = 500
_MOST_KNOWN = 4096
_MOST_TEXTS = 64


C = TypeVar("C", bound=Object)


class ObjectChange(NamedTuple):
    """What is to be done.

    Attributes:
        verb: create, update or delete.
        value: the spec, or a merge patch of it.
    """

    verb: str
    value: Any = None


class _DueChange(NamedTuple):
    """What was found due when a node, its object and the configuration were these."""

    node: Any
    existing: Any
    config: Any
    due: ObjectChange


class NodeObjectController(Generic[C]):
    """Keeps the objects of one kind.

    Args:
        name: of the controller.
        kind: the type of the objects; cluster-scoped.
        dependencies: what every controller of the manager is given.
        touched: whether changes of some sections of the configuration concern the spec.
        wanted: the spec of a node's object, given the object if there is one; None where nothing
            is known to be right yet.
        known: whether what the specs depend on has been read; nothing is deleted before.
        counts: of reconciles.
    """

    def __init__(
        self,
        name: str,
        kind: type[C],
        dependencies: ControllerDependencies,
        touched: Callable[[frozenset[str]], bool],
        wanted: Callable[[Node, C | None], Any],
        known: Callable[[], bool],
        counts: OutcomeCounts,
    ) -> None:
        self._kind: Any = kind
        self._dependencies = dependencies
        self._touched = touched
        self._wanted = wanted
        self._known = known
        self._counts = counts
        self._nodes = dependencies.views.view(Node)
        self._objects = dependencies.views.view(kind)
        self._left: set[str] = set()
        self._differences = SpecDifferences()
        self._due_changes: dict[str, _DueChange] = {}
        self._changed = asyncio.Event()
        self._controller = Controller(
            name,
            self._reconcile,
            workers=_WORKERS,
            metrics=dependencies.metrics.queues,
            supervisor=dependencies.supervisor,
        )
        self._name, self._attached = name, False

    async def run(self) -> None:
        """Works until cancelled."""
        if not self._attached:
            self._attached = True
            self._attach()
        sweep = f"{self._name} sweep"
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dependencies.supervisor.keep(sweep, self._sweep), name=sweep)
            await self._controller.run()

    def _attach(self) -> None:
        self._dependencies.config.subscribe(self._configured)
        for view in (self._nodes, self._objects):
            view.on_change(
                lambda new: self._queue_if_due(new.metadata.name),
                lambda old, new: self._queue_if_due(new.metadata.name),
                lambda last, unknown: self._queue_if_due(last.metadata.name),
            )
        self._objects.on_change(updated=self._edited)
        # What could not be written while the kind was missing is written now.
        self._objects.on_served(lambda served: self._changed.set())

    def _edited(self, old: C, new: C) -> None:
        """Tells who changed a spec that was as it should be that it is undone."""
        meta = new.metadata
        node = self._nodes.get(meta.name)
        if old.metadata.generation == meta.generation or node is None or self._is_left(new):
            return
        before, after = old.spec, new.spec  # type: ignore[attr-defined]
        wanted = self._wanted(node, old) if before != after else None
        if wanted is None or difference(before, wanted):
            return
        undone = difference(after, wanted)
        if undone:
            text = (
                f"what was changed in spec.{', spec.'.join(sorted(undone))} is undone: "
                f"{self._dependencies.config.title} decides; "
                f'annotated {keys.MANAGED}: "false" the object is left to its author'
            )
            self._dependencies.write_event(new, "Warning", "EditUndone", text)

    def _configured(self, changed: frozenset[str]) -> None:
        if self._touched(changed):
            self._changed.set()

    async def _sweep(self) -> None:
        """Looks at all nodes when the configuration has changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._queue_all_due()
            except Exception:
                # The next sweep has to look at what this one did not get to.
                self._changed.set()
                raise

    async def _queue_all_due(self) -> None:
        names = {key for key, _ in self._nodes.items()} | {k for k, _ in self._objects.items()}
        ordered = sorted(names)
        for begin in range(0, len(ordered), _CHUNK):
            self._controller.queue.add_all(filter(self._note_due, ordered[begin : begin + _CHUNK]))
            await asyncio.sleep(0)

    def _queue_if_due(self, name: str) -> None:
        if self._note_due(name):
            self._controller.queue.add(name)

    def _note_due(self, name: str) -> bool:
        """Whether anything is to be done about an object; for who does it, what."""
        seen = self._seen(name)
        due = self._due(name, seen[0], seen[1])
        if due is None:
            return False
        self._due_changes[name] = _DueChange(*seen, due)
        return True

    def _seen(self, name: str) -> tuple[Any, Any, Any]:
        """All that decides what is due."""
        return self._nodes.get(name), self._objects.get(name), self._dependencies.config.config

    def _due(self, name: str, node: Node | None, existing: C | None) -> ObjectChange | None:
        """What is to be done about an object; None if it is as it should be."""
        if not self._objects.served or (node is None and existing is None):
            self._left.discard(name)
            return None
        wanted = self._wanted(node, existing) if node is not None else None
        if existing is not None and self._is_left(existing):
            return None
        if node is None:
            return ObjectChange("delete") if self._known() else None
        if wanted is None:
            return None
        if existing is None:
            return ObjectChange("create", wanted)
        patch = self._differences.of(existing.spec, wanted)  # type: ignore[attr-defined]
        return ObjectChange("update", patch) if patch else None

    def _is_left(self, published: C) -> bool:
        """Whether an object is its author's; says so once."""
        meta = published.metadata
        left = meta.annotations.get(keys.MANAGED) == "false"
        if left and meta.name not in self._left:
            text = f'it is annotated {keys.MANAGED}: "false"; its spec is not kept up to date'
            self._dependencies.write_event(published, "Normal", "LeftToAuthor", text)
        (self._left.add if left else self._left.discard)(meta.name)
        return left

    async def _reconcile(self, name: str) -> float | None:
        found = self._due_changes.pop(name, None)
        seen = self._seen(name)
        known = found is not None and all(map(operator.is_, found, seen))
        due = found.due if found is not None and known else self._due(name, seen[0], seen[1])
        if due is None:
            return None
        try:
            faults.point("manager.companions.write")
            await self._write(name, due)
        except ApiError as error:
            self._counts.failed(due.verb)
            if is_definition_going(error):
                return _GOING_SECONDS
            if error.http_status not in (_NOT_FOUND, _CONFLICT):
                raise
            return _AGAIN_SECONDS
        except Exception:
            self._counts.failed(due.verb)
            raise
        self._counts.succeeded(due.verb)
        return None

    async def _write(self, name: str, due: ObjectChange) -> None:
        client, existing = self._dependencies.client, self._objects.get(name)
        if due.verb == "create":
            await client.create(self._kind(metadata=ObjectMeta(name=name), spec=due.value))
        elif existing is not None and due.verb == "delete":
            await client.delete(self._kind, name, uid=existing.metadata.uid)
        elif existing is not None:
            patch = self._differences.patch(existing, due.value)
            await client.patch(Object, name, patch, kind=kind_of_type(self._kind))


class SpecDifferences:
    """:func:`difference`, worked out once for all objects that say the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], dict[str, Any]] = {}
        # The last specs and patches that were wanted, which many objects share, with their texts.
        self._texts: dict[int, tuple[Any, bytes]] = {}

    def of(self, published: Any, wanted: Any) -> dict[str, Any]:
        """The merge patch, not to be changed; empty if the specs mean the same."""
        if published == wanted:
            return {}
        key = codec.to_json(published), self._text_of(wanted)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = difference(published, wanted)
        return found

    def patch(self, existing: Object, change: dict[str, Any]) -> Patch:
        """The patch of an object, of the state that it has now.

        Args:
            existing: the object.
            change: the merge patch of its spec, of :meth:`of`.
        """
        expected = preconditions_of(existing.metadata)
        body = b'{"metadata":%b,"spec":%b}' % (codec.to_json(expected), self._text_of(change))
        return Patch(MERGE_PATCH, body, conditional=any(expected.values()))

    def _text_of(self, wanted: Any) -> bytes:
        known = self._texts.get(id(wanted))
        if known is None or known[0] is not wanted:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            known = self._texts[id(wanted)] = wanted, codec.to_json(wanted)
        return known[1]


def difference(published: Any, wanted: Any) -> dict[str, Any]:
    """The merge patch from one spec to another; empty if they mean the same.

    An empty list, map or object means as much as its absence, except in ``extensions``, which
    are not ours to read.
    """
    if published == wanted:
        return {}
    old, new = codec.to_document(published), codec.to_document(wanted)
    return merge_patch(old, new) if _meaning(old) != _meaning(new) else {}


def _meaning(document: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in document.items():
        inner = _meaning(value) if isinstance(value, dict) and key != "extensions" else value
        if inner not in ({}, []):
            found[key] = inner
    return found
