# SPDX-License-Identifier: Apache-2.0
"""Finds reservations by the labels that ``reservationSelector`` asks for.

Rule: docs/reference/reservations.md#selector-index.

Of little use since owners are indexed anyway, unless a cluster's owner entries are all alike. It
never changes which reservations match, only how many are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )


class SelectorIndex:
    """Rows by label, worked out anew when reservations changed.

    Args:
        book: all reservations.
        keys: labels that are indexed with their values.
        prefixes: prefixes of labels that are indexed without.
    """

    def __init__(
        self, book: ReservationIndex, keys: Iterable[str], prefixes: Iterable[str]
    ) -> None:
        self._book = book
        self._keys = frozenset(keys)
        self._prefixes = tuple(sorted(prefixes))
        self._version = (-1, -1)
        self._exact: dict[tuple[str, str], set[int]] = {}
        self._with_prefix: dict[str, set[int]] = {}

    @classmethod
    def of_args(cls, args: Any, book: ReservationIndex) -> SelectorIndex | None:
        """The index that the plugin's arguments ask for; None where they want none."""
        config = args.reservation_selector_index
        if config is None or not config.enabled:
            return None
        return cls(book, config.keys, config.key_prefixes)

    def rows(self, selector: Mapping[str, str]) -> set[int] | None:
        """The fewest rows that can hold what a selector asks for; None if no key is indexed.

        A key that is indexed exactly does not consult the prefixes.
        """
        self._update()
        buckets: list[set[int]] = []
        for key, value in sorted(selector.items()):
            if key in self._keys:
                buckets.append(self._exact.get((key, value), set()))
                continue
            fitting = filter(key.startswith, self._prefixes)
            buckets.extend(self._with_prefix.get(prefix, set()) for prefix in fitting)
        return min(buckets, key=len, default=None)

    def _update(self) -> None:
        ledger, table = self._book.ledger, self._book.table
        version = (ledger.version, table.version)
        if self._version == version:
            return
        self._version = version
        self._exact, self._with_prefix = {}, {}
        for row, records in ledger.by_row.items():
            node = table.nodes[row]
            of_node = node.metadata.labels if node is not None else {}
            for record in records.values():
                self._add(row, {**of_node, **record.labels})

    def _add(self, row: int, labels: Mapping[str, str]) -> None:
        for key, value in labels.items():
            if key in self._keys:
                self._exact.setdefault((key, value), set()).add(row)
            for prefix in self._prefixes:
                if key.startswith(prefix):
                    self._with_prefix.setdefault(prefix, set()).add(row)
