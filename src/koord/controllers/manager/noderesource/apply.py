# SPDX-License-Identifier: Apache-2.0
"""One node brought to what its result says: when which part is written, and what is remembered.

Rule: manager spec, section 3.3. Where that writes an unchanged node at every start and every few
minutes, here only what differs is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct

from koord.api.kinds.node import Node
from koord.api.kinds.topology import NodeResourceTopology
from koord.base import log
from koord.controllers.manager.noderesource import zones
from koord.controllers.manager.noderesource.changes import meta_patch, status_due, status_patch
from koord.kube.informer import is_newer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.base.clock import Clock
    from koord.controllers.manager.noderesource.plugins import Plugins
    from koord.controllers.manager.noderesource.result import Result, Seen
    from koord.controllers.manager.noderesource.writer import Writer
    from koord.kube.patches import Patch

    ZonesOf = Callable[[NodeResourceTopology], Mapping[str, zones.Amounts]]

O = TypeVar("O", Node, NodeResourceTopology)  # noqa: E741

_LOG = log.get("manager.noderesource")
# What is due after a pause is due once the pause is over.
_AFTER_SECONDS = 0.001


class _Pace(NamedTuple):
    """How readily a strategy lets changes be written: by how much, and after how long anyway."""

    share: float
    pause_seconds: float


class _Written(Struct):
    """What is remembered of an object beside what the API server has.

    Attributes:
        at: when it was written, monotonic seconds; when it was first seen, before that.
        answer: the object as the server answered, until the informer has it.
    """

    at: float
    answer: Node | NodeResourceTopology | None = None


class Applier:
    """Writes nodes and their zones.

    Args:
        writer: sends what is due.
        clock: the time.
    """

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._nodes: dict[str, _Written] = {}
        self._zones: dict[str, _Written] = {}

    def latest(self, node: Node) -> Node:
        """The node of the informer, or as it was after the last write if that is later."""
        return _later(node, self._remembered(self._nodes, node.metadata.name))

    def hurry(self, name: str) -> None:
        """Has the next write of a node take along whatever differs, however little."""
        for kept in (self._nodes, self._zones):
            kept[name] = _Written(float("-inf"))

    def forget(self, name: str) -> None:
        """A node is gone."""
        self._nodes.pop(name, None)
        self._zones.pop(name, None)

    async def node(self, seen: Seen, plugins: Plugins, result: Result) -> float | None:
        """Writes what is due on a node.

        Args:
            seen: the node.
            plugins: say what is wanted; what others manage stays.
            result: what they calculated.

        Returns:
            After how many seconds what is not due yet will be; None where all is as wanted.

        Raises:
            ApiError: refused, or others were faster again and again.
            TransportError: no answer.
        """
        node, pace = seen.node, _pace(seen)
        written = self._remembered(self._nodes, node.metadata.name)
        late = self._clock.monotonic_seconds() - written.at > pace.pause_seconds

        def status(now: Node) -> Patch | None:
            if not now.status.capacity or not now.status.allocatable:
                return None
            wanted = plugins.wanted(now, result)
            due = late or status_due(now, wanted, pace.share)
            return status_patch(now, wanted) if due else None

        def meta(now: Node) -> Patch | None:
            wanted = plugins.wanted(now, result)
            return meta_patch(now, wanted) if plugins.meta_due(now, wanted) else None

        after = await self._writer.write(node, status, "status")
        if after is not None and after is not node:
            written.at = self._clock.monotonic_seconds()
            _tell(after)
        after = await self._writer.write(after, meta) if after is not None else None
        if after is None:
            return None
        written.answer = after
        if status_patch(after, plugins.wanted(after, result)) is None:
            return None
        return self._left(written, pace)

    async def zones(self, seen: Seen, zones_of: ZonesOf) -> float | None:
        """Writes what is due on a node's zones; see :meth:`node`.

        Args:
            seen: the node; it has a topology.
            zones_of: what the zones of a topology offer.
        """
        assert seen.topology is not None
        pace = _pace(seen)
        written = self._remembered(self._zones, seen.node.metadata.name)
        found = _later(seen.topology, written)
        late = self._clock.monotonic_seconds() - written.at > pace.pause_seconds

        def make(now: NodeResourceTopology) -> Patch | None:
            return zones.patch(now, zones_of(now), pace.share, late=late)

        after = await self._writer.write(found, make)
        if after is None:
            return None
        if after is not found:
            written.at = self._clock.monotonic_seconds()
        written.answer = after
        rest = zones.patch(after, zones_of(after), pace.share, late=True)
        return None if rest is None else self._left(written, pace)

    def _left(self, written: _Written, pace: _Pace) -> float:
        since = self._clock.monotonic_seconds() - written.at
        return max(0.0, pace.pause_seconds - since) + _AFTER_SECONDS

    def _remembered(self, kept: dict[str, _Written], name: str) -> _Written:
        found = kept.get(name)
        if found is None:
            # What a restart finds is taken for just written: else all nodes would be, at once.
            found = kept[name] = _Written(self._clock.monotonic_seconds())
        return found


def _pace(seen: Seen) -> _Pace:
    strategy = seen.strategy
    # A strategy in force has all fields.
    assert strategy.resource_diff_threshold is not None
    assert strategy.update_time_threshold_seconds is not None
    return _Pace(strategy.resource_diff_threshold, strategy.update_time_threshold_seconds)


def _later(seen: O, written: _Written) -> O:
    answer, version = written.answer, seen.metadata.resource_version
    if (
        isinstance(answer, type(seen))
        and answer.metadata.uid == seen.metadata.uid
        and is_newer(answer.metadata.resource_version, version)
    ):
        return answer
    # The informer has caught up; the answer need not be kept.
    written.answer = None
    return seen


def _tell(node: Node) -> None:
    shown = {
        name.rpartition("/")[2]: amount
        for name, amount in node.status.allocatable.items()
        if "/batch-" in name or "/mid-" in name
    }
    _LOG.debug("resources written", extra=log.fields(node=node.metadata.name, **shown))
