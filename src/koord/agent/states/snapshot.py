# SPDX-License-Identifier: Apache-2.0
"""One immutable view of what the agent knows of the cluster, each part with its age."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetricSpec
    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.api.kinds.topology import NodeResourceTopology

T = TypeVar("T", covariant=True)
NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Timestamped(Generic[T]):
    """A value and when its source last confirmed it, in seconds of the monotonic clock."""

    value: T
    at_seconds: float = NEVER

    def age_seconds(self, now_seconds: float) -> float:
        """Seconds since then; infinite for what was never seen."""
        return now_seconds - self.at_seconds


class SnapshotPart(Flag):
    """Parts of a snapshot, for those who want to know of changes."""

    NODE = auto()  #: labels, annotations or status of the Node
    PODS = auto()
    SLO = auto()
    TOPOLOGY = auto()  #: the NodeResourceTopology as this agent computes it
    METRIC_SPEC = auto()


_NONE: Timestamped[None] = Timestamped(None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What strategies, hooks and reports look at; None is what was never seen.

    Attributes:
        node: the Node object.
        pods: the pods of this node, by creation time, then key.
        slo: the NodeSLO merged with its defaults
            (docs/reference/measuring.md#nodeslo-of-the-node).
        topology: shared pools, reservation and zones, also where reporting is switched off.
        metric_spec: with its defaults (docs/reference/measuring.md#nodemetric-spec).
    """

    node: Timestamped[Node | None] = _NONE
    pods: Timestamped[tuple[PodState, ...]] = Timestamped(())
    slo: Timestamped[NodeSLOSpec | None] = _NONE
    topology: Timestamped[NodeResourceTopology | None] = _NONE
    metric_spec: Timestamped[NodeMetricSpec | None] = _NONE


class SnapshotSource(Protocol):
    """Where snapshots come from."""

    def snapshot(self) -> Snapshot:
        """The newest view; the same object as long as nothing changed."""
        ...

    def subscribe(
        self, parts: SnapshotPart, changed: Callable[[Snapshot, SnapshotPart], None]
    ) -> None:
        """Calls back in the event loop after any of the parts changed; bursts are coalesced."""
        ...
