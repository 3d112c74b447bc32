# SPDX-License-Identifier: Apache-2.0
"""The extension points: methods by which a class takes part in a round.

Rule: docs/reference/descheduling.md#framework.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from koord.api.kinds.migration import DeleteOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod


@dataclass(frozen=True)
class PodEviction:
    """What a strategy wants of a pod.

    Args:
        plugin: the strategy's name.
        reason: for people; empty for none.
        delete_options: how the pod is deleted.
        target: the node that a plan has it go to; empty for wherever the scheduler says.
        targets: the same of the pods that move with it, by uid.
    """

    plugin: str
    reason: str = ""
    delete_options: DeleteOptions = field(default_factory=DeleteOptions)
    target: str = ""
    targets: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Deschedule(Protocol):
    """Judges pods one by one."""

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evicts through the handle; nodes are those of the profile."""
        ...


@runtime_checkable
class Balance(Protocol):
    """Judges how pods are spread; runs after all Deschedule of all profiles."""

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts through the handle; nodes are those of the profile."""
        ...


@runtime_checkable
class EvictionFilter(Protocol):
    """Whether a pod may go.

    One that has ``refusal(pod)`` too says by which rule it may not, in one line or with that as its
    ``message``; empty or None if it may.
    """

    def filter(self, pod: Pod) -> bool:
        """Whether the pod may be a candidate at all."""
        ...

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Whether the pod may go now; asked right before its eviction."""
        ...


@runtime_checkable
class Evict(Protocol):
    """Carries an eviction out; a profile has exactly one.

    One that has ``why`` too says there why the last pod did not go, in one line. One whose limits
    count evictions that are planned has ``kept(pod)``, why a pod may not go now, empty where it
    may; ``assume(pod)``, which counts an eviction as if it had been asked for;
    ``release(pod)``, which takes one of these back; and ``forget()``, which takes all of them back.
    One that evicts further pods with one has ``together(pod)``: these, after it.
    """

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Whether the pod goes."""
        ...


POINTS: dict[str, type] = {
    "deschedule": Deschedule, "balance": Balance, "filter": EvictionFilter, "evict": Evict,
}  # fmt: skip
"""The extension points by their names in a configuration."""
