# SPDX-License-Identifier: Apache-2.0
"""Patches of nodes and zones of which nothing but the offers is new: from columns to bytes.

The same bytes as :mod:`.node_patches` and :mod:`.zone_patches` make of objects
(docs/reference/node-resources.md#how-a-patch-is-made). What does not change is text that was made
once: of zones, for all machines of which agents report the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from koord.api.codec import to_json
from koord.api.protocol import keys
from koord.controllers.manager.noderesource.plugins.batch_and_mid import BATCH, MID, origin_text
from koord.controllers.manager.noderesource.plugins.plugin import DesiredNode
from koord.controllers.manager.noderesource.writers.zone_patches import merged, numbers_by_zone
from koord.controllers.manager.overcommit.formulas.threshold import ABSENT
from koord.controllers.manager.overcommit.objects.pod_terms import MOST_ZONES
from koord.kernels.quantity import Quantity
from koord.kube.patches import Patch
from koord.kube.transport.messages import MERGE_PATCH

if TYPE_CHECKING:
    from koord.api.kinds.topology import NodeResourceTopology, Zone

Amounts = Sequence[int]
OFFERS = (*BATCH, *MID)
"""What a node shows of offers, in the order of patches."""
MOST_TEMPLATES = 1024
"""Of so many different machines zones are known as text; those of others are made of objects."""
LONGEST_ZONES = 16 << 10
"""So are those of longer text, in bytes."""

_MEMBERS = [f'"{name}":' for name in OFFERS]
# Of the zones of a machine all show batch, or none do; seldom some.
_MOST_FORMATS = 16
# Amounts that no machine has stand where real ones are to be.
_MARK, _NEXT = 10**15 + 7, 10
_MARKED = b"1000000000000"


class DecidedPatches(NamedTuple):
    """What is sent of a node whose offers alone are new.

    Attributes:
        desired: how the node is to be.
        node: the patch of its status.
        zones: that of its zones; None where it has none.
        zones_text: all zones as they are to be, as JSON.
    """

    desired: DesiredNode
    node: Patch
    zones: Patch | None = None
    zones_text: bytes = b""


class _TextTemplate(NamedTuple):
    """A text with places, for ``%``, and which amount each of them has."""

    text: str
    amounts: list[int]

    def of(self, amounts: Sequence[str]) -> str:
        """The text with these amounts."""
        return self.text % tuple([amounts[each] for each in self.amounts])


def _format(text: str, marks: Sequence[int]) -> _TextTemplate:
    """A text with a place for each mark in it."""
    text = text.replace("%", "%%")
    for number, mark in enumerate(marks):
        # JSON has no such character.
        text = text.replace(str(mark), f"\0{number}\0")
    pieces = text.split("\0")
    return _TextTemplate("%s".join(pieces[0::2]), [int(each) for each in pieces[1::2]])


# The annotation that goes with offers, by itself and in a patch.
_MARKS = (_MARK, _MARK + _NEXT)
_ORIGIN = _format(origin_text(_MARKS), _MARKS)
_BESIDE = _format(to_json({keys.ORIGIN_EXTENDED_ALLOCATABLE: origin_text(_MARKS)}).decode(), _MARKS)


def whole_text(amount: int) -> str:
    """So many whole units, as the text of their quantity."""
    # Only what ends in three zeros has another unit.
    return str(amount) if amount % 1000 else str(Quantity.from_value(amount))


def milli_text(amount: int) -> str:
    """So many thousandths, likewise."""
    whole, thousandths = divmod(amount, 1000)
    return f"{amount}m" if thousandths else whole_text(whole)


def status_patch(
    version: str, published: Amounts, desired: Amounts, origin: Amounts | None
) -> tuple[DesiredNode, Patch | None]:
    """How a node is to be, and the patch of its status; None where nothing differs.

    Args:
        version: of the node.
        published: what it shows of :data:`OFFERS`, :data:`ABSENT` for nothing.
        desired: what it is to show.
        origin: batch before third parties took theirs; None where the annotation stays.
    """
    amounts = [None if each == ABSENT else Quantity.from_value(each) for each in desired]
    wanted, annotations = DesiredNode(dict(zip(OFFERS, amounts, strict=True))), ""
    if origin is not None:
        texts = [whole_text(each) for each in origin]
        wanted.beside = {keys.ORIGIN_EXTENDED_ALLOCATABLE: _ORIGIN.of(texts)}
        annotations = f',"annotations":{_BESIDE.of(texts)}'
    changed = [
        f"{member}null" if to == ABSENT else f'{member}"{whole_text(to)}"'
        for member, now, to in zip(_MEMBERS, published, desired, strict=True)
        if now != to
    ]
    if not changed and not annotations:
        return wanted, None
    names = ",".join(changed)
    status = f'"capacity":{{{names}}},"allocatable":{{{names}}}' if names else ""
    metadata = f'"resourceVersion":{_text(version)}{annotations}'
    return wanted, _patch(f'{{"metadata":{{{metadata}}},"status":{{{status}}}}}', version)


def zones_patch(version: str, zones: str) -> Patch:
    """The patch that puts zones, as JSON, in the place of those of a topology."""
    metadata = f'"resourceVersion":{_text(version)}'
    return _patch(f'{{"metadata":{{{metadata}}},"zones":{zones}}}', version)


def _text(version: str) -> str:
    return f'"{version}"' if version.isdecimal() else to_json(version).decode()


def _patch(body: str, version: str) -> Patch:
    return Patch(MERGE_PATCH, body.encode(), conditional=bool(version))


class ZonesTemplate:
    """The zones of a topology as text, but for their batch resources.

    Args:
        zones: without them.
        numbers: the NUMA number of each, None for one that has none.
    """

    def __init__(self, zones: list[Zone], numbers: list[int | None]) -> None:
        self._zones, self._numbers = zones, numbers
        self._rows = [number for number in numbers if number is not None]
        # By which amounts are there.
        self._formats: dict[tuple[bool, ...], _TextTemplate] = {}

    def text(self, cpu: Amounts, memory: Amounts) -> str:
        """The zones, as JSON.

        Args:
            cpu: batch-cpu by NUMA number, milli-cores; :data:`ABSENT` where a zone shows none.
            memory: batch-memory, thousandths of a byte.
        """
        amounts = []
        for number in self._rows:
            milli, size = cpu[number], memory[number]
            amounts.append("" if milli == ABSENT else whole_text(milli))
            amounts.append("" if size == ABSENT else milli_text(size))
        there = tuple(map(bool, amounts))
        known = self._formats.get(there)
        if known is None:
            if len(self._formats) >= _MOST_FORMATS:
                self._formats.clear()
            known = self._formats[there] = self._format(there)
        return known.of(amounts)

    def _format(self, present: tuple[bool, ...]) -> _TextTemplate:
        marks = [_MARK + _NEXT * at for at in range(len(present))]
        quantities = iter([Quantity.from_value(mark) for mark in marks])
        shown, zones = iter(present), []
        for zone, number in zip(self._zones, self._numbers, strict=True):
            said = {}
            for name in BATCH if number is not None else ():
                amount = next(quantities)
                if next(shown):
                    said[name] = amount
            zones.append(replace(zone, resources=merged(zone.resources, said)) if said else zone)
        return _format(to_json(zones).decode(), marks)


class ZoneTemplates:
    """Templates by what they say, one for all topologies that say the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, tuple[int | None, ...]], ZonesTemplate] = {}

    def of(self, topology: NodeResourceTopology) -> ZonesTemplate | None:
        """The template of a topology; None for one machine too many."""
        number_of = numbers_by_zone(topology)
        numbers = [_within(number_of.get(zone.name)) for zone in topology.zones]
        zones = [
            zone if number is None else _without_batch(zone)
            for zone, number in zip(topology.zones, numbers, strict=True)
        ]
        key = to_json(zones), tuple(numbers)
        found = self._known.get(key)
        # A text that has a mark already would be taken apart in the wrong place.
        fits = len(self._known) < MOST_TEMPLATES and len(key[0]) <= LONGEST_ZONES
        if found is None and fits and _MARKED not in key[0]:
            found = self._known[key] = ZonesTemplate(zones, numbers)
        return found


def _within(number: int | None) -> int | None:
    return number if number is not None and number < MOST_ZONES else None


def _without_batch(zone: Zone) -> Zone:
    kept = [each for each in zone.resources if each.name not in BATCH]
    return zone if len(kept) == len(zone.resources) else replace(zone, resources=kept)
