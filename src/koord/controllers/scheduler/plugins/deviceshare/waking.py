# SPDX-License-Identifier: Apache-2.0
"""Which cluster events may help a pod that no node had devices for.

A card that goes or breaks is as one that a pod takes: it helps nobody, except pods that want every
card there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.deviceshare.names import DEVICES_EVENT, GPU, NAME, TYPES
from koord.controllers.scheduler.plugins.deviceshare.request import OF_TYPE
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.deviceshare.ask import Ask
    from koord.controllers.scheduler.plugins.deviceshare.inventory import Inventory, Listed

DEVICE_RESOURCES = frozenset(name for names_of in OF_TYPE.values() for name in names_of)
_NODE_LABELS = (
    keys.GPU_ISOLATION_PROVIDER, keys.GPU_MODEL, keys.GPU_VENDOR, keys.GPU_PARTITION_POLICY,
)  # fmt: skip


class Change(NamedTuple):
    """What became of the devices of a node, or of all nodes.

    Attributes:
        gained: types of which a card is there, whole or larger, or elsewhere than it was.
        changed: types of which anything is different.
    """

    gained: frozenset[str]
    changed: frozenset[str]


EVERYTHING = Change(frozenset(TYPES), frozenset(TYPES))
"""To be judged anew altogether."""


def change_of(old: Inventory | None, new: Inventory | None) -> Change:
    """From one state of a node's Device to the next; None where there is none."""
    if old is not None and new is not None and old.labels != new.labels:
        return EVERYTHING
    gained, changed = set(), set()
    if old is not None and new is not None and old.partitions != new.partitions:
        gained, changed = {GPU}, {GPU}
    for kind in TYPES:
        before = old.cards.get(kind, {}) if old is not None else {}
        now = new.cards.get(kind, {}) if new is not None else {}
        if before != now:
            changed.add(kind)
        if any(_gains(before.get(minor), listed) for minor, listed in now.items()):
            gained.add(kind)
    return Change(frozenset(gained), frozenset(changed))


def _gains(before: Listed | None, now: Listed) -> bool:
    if not now.card.healthy:
        return False
    if before is None or not before.card.healthy:
        return True
    had, has = before.card, now.card
    placed = (had.numa_node, had.pcie) != (has.numa_node, has.pcie)
    told = (before.id, before.labels, before.vf_groups) != (now.id, now.labels, now.vf_groups)
    return placed or told or any(has.total[name] > had.total.get(name, 0) for name in has.total)


def events(
    read: Callable[[PodShape], Ask | str | None], known: Callable[[str], Inventory | None]
) -> Sequence[ev.HintedEvent]:
    """The registrations.

    Args:
        read: what pods of a shape want; a text if that cannot be said.
        known: the cards of a node by name, whether or not the node is there.
    """

    def serves(info: PodInfo, old: object, new: Change) -> bool:
        ask = read(info.shape)
        if ask is None or isinstance(ask, str):
            return ask is None  # what cannot be read no device mends
        which = new.changed if any(map(ask.for_all, ask.requests)) else new.gained
        return not which.isdisjoint(ask.requests)

    def came(info: PodInfo, old: object, new: Node) -> bool:
        # Of a node whose Device comes later, that will tell.
        return serves(info, None, change_of(None, known(new.metadata.name)))

    action = ev.Action
    return (
        ev.HintedEvent(ev.ClusterEvent(ev.POD, action.DELETE), _frees_devices, per_shape=True),
        ev.HintedEvent(ev.ClusterEvent(DEVICES_EVENT, action.ALL), serves, per_shape=True),
        ev.HintedEvent(ev.ClusterEvent(ev.NODE, action.ADD), came, per_shape=True),
        ev.HintedEvent(ev.ClusterEvent(ev.NODE, action.UPDATE_NODE_LABEL), _relabelled, True),
    )


def _relabelled(info: PodInfo, old: Node, new: Node) -> bool:
    before, now = old.metadata.labels, new.metadata.labels
    return any(before.get(key) != now.get(key) for key in _NODE_LABELS)


def _frees_devices(info: PodInfo, old: Any, new: object) -> bool:
    """Whether a pod that went may have held devices."""
    if old is None or NAME in old.allocations:
        return True
    return not DEVICE_RESOURCES.isdisjoint(old.shape.request)
