# SPDX-License-Identifier: Apache-2.0
"""Reservations by what their owner entries say: those of one class are for the same pods.

A pod of a shape that was not seen before is held against each class that may mean it, however many
reservations there are of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.controllers.scheduler.plugins.reservation.objects import owners

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import ReservationOwner
    from koord.controllers.scheduler.plugins.reservation.objects.owners import Key
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )


class _OwnerClass:
    """Reservations with equal entries, those for single pods left out.

    Attributes:
        text: the entries, as what tells classes apart.
        members: by uid.
    """

    __slots__ = ("entries", "members", "number", "text")

    def __init__(self, number: int, text: bytes, entries: list[ReservationOwner]) -> None:
        self.number, self.text, self.entries = number, text, entries
        self.members: dict[str, ReservationInfo] = {}

    def matches(self, pod: Pod) -> bool:
        return any(owners.matches(entry, pod) for entry in self.entries)


class OwnerClasses:
    """The classes of all reservations of a cluster.

    Attributes:
        last: the number of the latest class; classes are numbered as they come.
    """

    def __init__(self) -> None:
        self.last = 0
        self._by_text: dict[bytes, _OwnerClass] = {}
        self._by_number: dict[int, _OwnerClass] = {}
        self._by_key: dict[Key, dict[int, _OwnerClass]] = {}
        self._of: dict[str, _OwnerClass] = {}

    def put(self, record: ReservationInfo) -> None:
        """A reservation came, or its entries may be others."""
        entries = [entry for entry in record.entries if not owners.is_personal(entry)]
        text = msgspec.json.encode(entries)
        before = self._of.get(record.uid)
        if before is not None and before.text == text:
            return
        self.remove(record.uid)
        if entries:
            kind = self._by_text.get(text) or self._new(text, entries)
            self._of[record.uid] = kind
            kind.members[record.uid] = record

    def remove(self, uid: str) -> None:
        """A reservation went."""
        kind = self._of.pop(uid, None)
        if kind is None:
            return
        del kind.members[uid]
        if not kind.members:
            del self._by_text[kind.text], self._by_number[kind.number]
            for key in _keys(kind):
                del self._by_key[key][kind.number]
                if not self._by_key[key]:
                    del self._by_key[key]

    def number(self, uid: str) -> int:
        """The class of a reservation; 0 for none."""
        kind = self._of.get(uid)
        return kind.number if kind is not None else 0

    def of(self, pod: Pod) -> frozenset[int]:
        """The classes that mean pods of a shape."""
        found: dict[int, _OwnerClass] = {}
        for key in owners.shape_keys(pod):
            found.update(self._by_key.get(key, {}))
        return frozenset(number for number, kind in found.items() if kind.matches(pod))

    def brought_up_to_date(self, known: frozenset[int], since: int, pod: Pod) -> frozenset[int]:
        """:meth:`of` from what it was when ``last`` was ``since``; may name classes that went."""
        new = []
        for number in reversed(self._by_number):
            if number <= since:
                break
            if self._by_number[number].matches(pod):
                new.append(number)
        return frozenset([*(n for n in known if n in self._by_number), *new]) if new else known

    def members(self, numbers: Collection[int]) -> Iterator[ReservationInfo]:
        """The reservations of some classes."""
        for number in sorted(numbers):
            kind = self._by_number.get(number)
            if kind is not None:
                yield from kind.members.values()

    def _new(self, text: bytes, entries: list[ReservationOwner]) -> _OwnerClass:
        self.last += 1
        kind = self._by_text[text] = self._by_number[self.last] = _OwnerClass(
            self.last, text, entries
        )
        for key in _keys(kind):
            self._by_key.setdefault(key, {})[self.last] = kind
        return kind


def _keys(kind: _OwnerClass) -> set[Key]:
    return {key for entry in kind.entries for key in owners.entry_keys(entry)}
