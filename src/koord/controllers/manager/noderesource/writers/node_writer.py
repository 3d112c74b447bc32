# SPDX-License-Identifier: Apache-2.0
"""One node brought to what its result says: when which part is written, and what is remembered.

Rule: docs/reference/node-resources.md#when-a-write-is-due. Where the original writes an unchanged
node at every start and every few minutes, here only what differs is written.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from msgspec import Struct

from koord.api.codec import to_json
from koord.api.kinds.node import Node
from koord.api.kinds.topology import NodeResourceTopology
from koord.base import log
from koord.controllers.manager.noderesource.plugins.plugin import DesiredNode
from koord.controllers.manager.noderesource.writers import zone_patches
from koord.controllers.manager.noderesource.writers.node_patches import (
    is_taken,
    meta_patch,
    status_due,
    status_patch,
)
from koord.kube.errors import ApiError
from koord.kube.informers.informer import is_newer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.api.kinds.topology import Zone
    from koord.base.clock import Clock
    from koord.controllers.manager.noderesource.plugins.plugin import DecidedNode, NodeInputs
    from koord.controllers.manager.noderesource.plugins.plugin_chain import PluginChain
    from koord.controllers.manager.noderesource.writers.decided_patches import DecidedPatches
    from koord.controllers.manager.noderesource.writers.patch_writer import PatchWriter
    from koord.kube.patches import Patch

    Prepare = Callable[[Node], DesiredNode]
    ZonesOf = Callable[[NodeResourceTopology], Mapping[str, zone_patches.BatchPair]]

O = TypeVar("O", Node, NodeResourceTopology)  # noqa: E741

_LOG = log.get("manager.noderesource")
# What is due after a pause is due once the pause is over.
_AFTER_SECONDS = 0.001


class _WriteThresholds(NamedTuple):
    """How readily a strategy lets changes be written: by how much, and after how long anyway."""

    share: float
    pause_seconds: float


class WriteOutcome(NamedTuple, Generic[O]):
    """What became of a node, or of its zones.

    Attributes:
        current: as the server has it now.
        left_seconds: after how many seconds what is not due yet will be; None where all is as
            wanted.
        alone: whether nobody else wrote it meanwhile, so that it is as it was seen but for what was
            written.
        wanted: what plugins want of a node; nothing for zones.
    """

    current: O
    left_seconds: float | None
    alone: bool
    wanted: DesiredNode = DesiredNode()


class DecidedWrites(NamedTuple):
    """What came of a node and its zones that were sent as decided.

    Of what did not go as expected there is only what the server said to the first patch; None
    where none was sent.
    """

    node: WriteOutcome[Node] | Node | ApiError | None = None
    zones: WriteOutcome[NodeResourceTopology] | NodeResourceTopology | ApiError | None = None


class _LastWrite(Struct):
    """What is remembered of an object beside what the API server has.

    Attributes:
        at: when it was written, monotonic seconds; when it was first seen, before that.
        answer: the object as the server answered, until the informer has it.
    """

    at: float
    answer: Node | NodeResourceTopology | None = None


class NodeWriter:
    """Writes nodes and their zones.

    Args:
        writer: sends what is due.
        clock: the time.
    """

    def __init__(self, writer: PatchWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._nodes: dict[str, _LastWrite] = {}
        self._zones: dict[str, _LastWrite] = {}

    def latest(self, node: Node) -> Node:
        """The node of the informer, or as it was after the last write if that is later."""
        return _later(node, self._remembered(self._nodes, node.metadata.name))

    def hurry(self, name: str) -> None:
        """Has the next write of a node take along whatever differs, however little."""
        for kept in (self._nodes, self._zones):
            kept[name] = _LastWrite(float("-inf"))

    def forget(self, name: str) -> None:
        """A node is gone."""
        self._nodes.pop(name, None)
        self._zones.pop(name, None)

    def written_at(self, name: str) -> tuple[float, float]:
        """When a node and its zones were written, monotonic seconds."""
        return self._remembered(self._nodes, name).at, self._remembered(self._zones, name).at

    def latest_zones(self, topology: NodeResourceTopology) -> NodeResourceTopology:
        """As :meth:`latest`, of a node's zones."""
        return _later(topology, self._remembered(self._zones, topology.metadata.name))

    async def as_decided(
        self, node: Node, topology: NodeResourceTopology | None, patches: DecidedPatches
    ) -> DecidedWrites:
        """Sends what was decided, as far as everything goes as expected.

        Args:
            node, topology: in the states that it was decided for.
            patches: what is sent.

        Raises:
            ApiError, TransportError: as of :meth:`node`.
        """
        name, sent = node.metadata.name, await self._writer.send(node, patches.node, "status")
        if isinstance(sent, ApiError) or not is_taken(node, sent, patches.desired):
            return DecidedWrites(sent)
        written = self._remembered(self._nodes, name)
        written.at, written.answer = self._clock.monotonic_seconds(), sent
        _log_write(sent)
        done = WriteOutcome(sent, None, True, patches.desired)
        if topology is None or patches.zones is None:
            return DecidedWrites(done)
        answer = await self._writer.send(topology, patches.zones)
        if isinstance(answer, ApiError) or to_json(answer.zones) != patches.zones_text:
            return DecidedWrites(done, answer)
        written = self._remembered(self._zones, name)
        written.at, written.answer = self._clock.monotonic_seconds(), answer
        return DecidedWrites(done, WriteOutcome(answer, None, True))

    async def node(
        self,
        seen: NodeInputs,
        plugins: PluginChain,
        prepare: Prepare,
        known: DecidedNode | None = None,
        sent: Node | ApiError | None = None,
    ) -> WriteOutcome[Node] | None:
        """Writes what is due on a node.

        Args:
            seen: the node.
            plugins: say whether labels and annotations are due; what others manage stays.
            prepare: what they want of a state of the node.
            known: what they want of the node as it was seen, and whether it is due, where that is
                known.
            sent: what came of the first patch, where that was sent already.

        Returns:
            What became of it; None where it is gone.

        Raises:
            ApiError: refused, or others were faster again and again.
            TransportError: no answer.
        """
        node, pace = seen.node, _pace(seen)
        written = self._remembered(self._nodes, node.metadata.name)
        late = self._clock.monotonic_seconds() - written.at > pace.pause_seconds
        decided_due = known is not None and known.node_due
        wanted_of = _PreparedNode(prepare, node, None if known is None else known.desired)
        steady = _VersionCheck(node)

        def status(now: Node) -> Patch | None:
            steady(now)
            if not now.status.capacity or not now.status.allocatable:
                return None
            wanted = wanted_of(now)
            known_due = late or (decided_due and now is node)
            due = known_due or status_due(now, wanted, pace.share)
            return status_patch(now, wanted) if due else None

        def meta(now: Node) -> Patch | None:
            steady(now)
            wanted = wanted_of(now)
            return meta_patch(now, wanted) if plugins.meta_due(now, wanted) else None

        after = await self._writer.write(node, status, "status", sent)
        if after is not None and after is not node:
            written.at = self._clock.monotonic_seconds()
            _log_write(after)
        if after is not None:
            steady.next = after
            after = await self._writer.write(after, meta)
        if after is None:
            return None
        written.answer = after
        wanted = wanted_of(after)
        rests = wanted_of.taken or status_patch(after, wanted) is None
        left = None if rests else self._left(written, pace)
        return WriteOutcome(after, left, steady.so_far, wanted)

    async def zones(
        self,
        seen: NodeInputs,
        zones_of: ZonesOf,
        *,
        due: bool = False,
        sent: NodeResourceTopology | ApiError | None = None,
    ) -> WriteOutcome[NodeResourceTopology] | None:
        """Writes what is due on a node's zones; see :meth:`node`.

        Args:
            seen: the node; it has a topology.
            zones_of: what the zones of a topology offer.
            due: whether it is known that they moved far enough to be written.
            sent: as of :meth:`node`.
        """
        assert seen.topology is not None
        pace = _pace(seen)
        written = self._remembered(self._zones, seen.node.metadata.name)
        found = _later(seen.topology, written)
        late = self._clock.monotonic_seconds() - written.at > pace.pause_seconds

        made: list[Zone] | None = None
        steady = _VersionCheck(found)

        def make(now: NodeResourceTopology) -> Patch | None:
            nonlocal made
            steady(now)
            known = late or (due and now is found)
            made = zone_patches.updated_zones(now, zones_of(now), pace.share, late=known)
            return None if made is None else zone_patches.zones_patch(now, made)

        after = await self._writer.write(found, make, sent=sent)
        if after is None:
            return None
        if after is not found:
            written.at = self._clock.monotonic_seconds()
        written.answer = after
        rests = after.zones == made
        rests = (
            rests
            or zone_patches.updated_zones(after, zones_of(after), pace.share, late=True) is None
        )
        return WriteOutcome(after, None if rests else self._left(written, pace), steady.so_far)

    def _left(self, written: _LastWrite, pace: _WriteThresholds) -> float:
        since = self._clock.monotonic_seconds() - written.at
        return max(0.0, pace.pause_seconds - since) + _AFTER_SECONDS

    def _remembered(self, kept: dict[str, _LastWrite], name: str) -> _LastWrite:
        found = kept.get(name)
        if found is None:
            # What a restart finds is taken for just written: else all nodes would be, at once.
            found = kept[name] = _LastWrite(self._clock.monotonic_seconds())
        return found


class _VersionCheck:
    """Whether a patch was only ever made for the states that were expected.

    Attributes:
        next: the state that is expected next.
        so_far: the answer.
    """

    def __init__(self, first: object) -> None:
        self.next = first
        self.so_far = True

    def __call__(self, now: object) -> None:
        self.so_far = self.so_far and now is self.next


class _PreparedNode:
    """What plugins want of a node, prepared once for each state of it.

    Attributes:
        taken: whether the last state is what was wanted of the one before, and nothing else.
    """

    def __init__(self, prepare: Prepare, node: Node, known: DesiredNode | None) -> None:
        self._prepare = prepare
        self._node = node if known is not None else None
        self._wanted = known or DesiredNode()
        self.taken = False

    def __call__(self, now: Node) -> DesiredNode:
        before, self._node = self._node, now
        if now is not before:
            # What was wanted is still wanted where nothing but that has changed.
            self.taken = before is not None and is_taken(before, now, self._wanted)
            if not self.taken:
                self._wanted = self._prepare(now)
        return self._wanted


def _pace(seen: NodeInputs) -> _WriteThresholds:
    strategy = seen.strategy
    # A strategy in force has all fields.
    assert strategy.resource_diff_threshold is not None
    assert strategy.update_time_threshold_seconds is not None
    return _WriteThresholds(
        strategy.resource_diff_threshold, strategy.update_time_threshold_seconds
    )


def _later(seen: O, written: _LastWrite) -> O:
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


def _log_write(node: Node) -> None:
    if not _LOG.isEnabledFor(logging.DEBUG):
        return
    shown = {
        name.rpartition("/")[2]: amount
        for name, amount in node.status.allocatable.items()
        if "/batch-" in name or "/mid-" in name
    }
    _LOG.debug("resources written", extra=log.fields(node=node.metadata.name, **shown))
