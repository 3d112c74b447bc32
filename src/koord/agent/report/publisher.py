# SPDX-License-Identifier: Apache-2.0
"""Writes this node's own objects: makes them, brings its part of them up to date, no more.

What others keep in an object stays. One annotated ``koordinator.sh/managed: "false"`` is left to
its author, and an event says so.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from koord.api import codec
from koord.api.kinds.meta import Object
from koord.api.kinds.registry import kind_of_type
from koord.api.kinds.topology import NodeResourceTopology, Zone
from koord.api.objects import stamped
from koord.api.protocol import keys
from koord.base import faults
from koord.base.errors import KoordError
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.agent.states.snapshot import SnapshotSource
    from koord.base.supervision import Supervisor
    from koord.kube.client import Client
    from koord.kube.events import EventRecorder

FIELD_MANAGER = "koordlet"
# What a NodeResourceTopology has of its node: it goes where the node has it no more.
_COPIED = {
    "annotations": (keys.NODE_RESERVATION, keys.SYSTEM_QOS_RESOURCE),
    "labels": (keys.ENABLE_NUMA_RESERVATION,),
}
_NOT_FOUND, _EXISTS = 404, 409
O = TypeVar("O", bound=Object)  # noqa: E741


class Publisher:
    """Brings single objects up to date.

    Args:
        client: the way to the API server.
        states: the Node that events are about.
        recorder: of events; None for none.
    """

    def __init__(
        self, client: Client, states: SnapshotSource, recorder: EventRecorder | None = None
    ) -> None:
        self._client = client
        self._states = states
        self._recorder = recorder
        self._left: set[str] = set()

    async def publish(
        self, wanted: O, published: O | None, changes: Callable[[O, O], dict[str, Any] | None]
    ) -> bool:
        """Makes the object, or patches it where it differs; whether anything was written.

        Args:
            wanted: the agent's part of it, whole.
            published: as it is in a cache; None if it is not there. Patches carry its version, so
                that one made from an old state is refused and made again.
            changes: gives the merge patch that makes the agent's part right; None if it is.

        Raises:
            ApiError, TransportError: not written; a later call tries again.
        """
        if published is None:
            faults.point("agent.report.create")
            await self._client.create(stamped(wanted), field_manager=FIELD_MANAGER)
            return True
        if self.is_left(published):
            return False
        change = changes(published, wanted)
        if change is None:
            return False
        change.setdefault("metadata", {})["resourceVersion"] = published.metadata.resource_version
        faults.point("agent.report.patch")
        kind = kind_of_type(type(wanted))
        await self._client.patch(
            Object, wanted.metadata.name, Patch.merge(change),
            field_manager=FIELD_MANAGER, kind=kind,
        )  # fmt: skip
        return True

    async def write_status(self, published: Object, status: object, most_seconds: float) -> None:
        """Replaces a whole status: what is not said any more goes, such as pods that went.

        Args:
            published: the object as it is in a cache.
            status: the whole status.
            most_seconds: for all tries. A connection that is dead and does not say so takes no
                longer than that, and the next call has another one.

        Raises:
            ApiError, TransportError: not written.
        """
        if self.is_left(published):
            return
        kind = kind_of_type(type(published))
        whole = {"op": "add", "path": "/status", "value": codec.to_document(status)}
        faults.point("agent.report.status")
        await self._client.patch(
            Object, published.metadata.name, Patch.json([whole]), subresource="status",
            field_manager=FIELD_MANAGER, kind=kind, timeout_seconds=most_seconds,
        )  # fmt: skip

    def is_left(self, published: Object) -> bool:
        """Whether an object is its author's; says so once, as an event on the node."""
        left = published.metadata.annotations.get(keys.MANAGED) == "false"
        name = f"{type(published).__name__} {published.metadata.name}"
        node = self._states.snapshot().node.value
        if left and name not in self._left and self._recorder is not None and node is not None:
            text = f'{name} is annotated {keys.MANAGED}: "false"; nothing is reported in it'
            self._recorder.event(node, "Normal", "LeftToAuthor", text)
        (self._left.add if left else self._left.discard)(name)
        return left


class PublishAttempt:
    """One try to report; what the server or the way to it fails of is told once and counted.

    It counts as a part of its own, ``report of KIND``: those who compute have done their work.

    Args:
        supervisor: tells and counts.
        what: kind of the object.

    Attributes:
        again: whether it failed of something that is to be tried again.
    """

    def __init__(self, supervisor: Supervisor, what: str) -> None:
        self._supervisor, self._part = supervisor, f"report of {what}"
        self.again = False

    def __enter__(self) -> PublishAttempt:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if error is None and self._part in self._supervisor.parts:
            self._supervisor.worked(self._part)
        if not isinstance(error, ApiError | TransportError):
            return False
        # Else somebody was faster, or the object went: the cache hears of it.
        if not isinstance(error, ApiError) or error.http_status not in (_NOT_FOUND, _EXISTS):
            self.again = True
            self._supervisor.failed(self._part, error)
        return True


def metadata_changes(
    published: Object, wanted: Object, own: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The labels and annotations that differ; JSON is compared by what it says.

    Args:
        published: the object as it is.
        wanted: as it should be.
        own: keys by field, ``labels`` or ``annotations``, that go where they are not wanted.
    """
    changed: dict[str, Any] = {}
    for field in ("labels", "annotations"):
        have, want = getattr(published.metadata, field), getattr(wanted.metadata, field)
        differing = {key: text for key, text in want.items() if not _same(have.get(key), text)}
        gone = [key for key in own.get(field, ()) if key in have and key not in want]
        if differing or gone:
            changed[field] = {**differing, **dict.fromkeys(gone)}
    return changed


def topology_changes(
    published: NodeResourceTopology, wanted: NodeResourceTopology
) -> dict[str, Any] | None:
    """What to patch; resources that others keep in a zone stay.

    Rule: docs/reference/reports.md#when-the-topology-is-written.
    """
    metadata = metadata_changes(published, wanted, _COPIED)
    change: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if published.topology_policies != wanted.topology_policies:
        change["topologyPolicies"] = wanted.topology_policies
    zones = _merged_zones(published.zones, wanted.zones)
    if zones != [_in_order(zone) for zone in published.zones]:
        change["zones"] = codec.to_document(zones)
    return change or None


def _merged_zones(published: Sequence[Zone], wanted: Sequence[Zone]) -> list[Zone]:
    known: Mapping[str, Zone] = {zone.name: zone for zone in published}
    merged = []
    for zone in wanted:
        old = known.get(zone.name)
        if old is None:
            merged.append(zone)
            continue
        own = {resource.name for resource in zone.resources}
        others = [each for each in old.resources if each.name not in own]
        resources = [*zone.resources, *others]
        merged.append(_in_order(replace(old, type=zone.type, resources=resources)))
    return merged


def _in_order(zone: Zone) -> Zone:
    """With its resources by name: others may have put theirs anywhere."""
    resources = sorted(zone.resources, key=attrgetter("name"))
    return replace(zone, resources=resources)


def _same(have: str | None, want: str) -> bool:
    if have is None or have == want:
        return have == want
    try:
        return bool(codec.parse_json(have, "") == codec.parse_json(want, ""))
    except KoordError:
        # Somebody else wrote what is no JSON.
        return False
