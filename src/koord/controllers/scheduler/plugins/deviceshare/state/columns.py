# SPDX-License-Identifier: Apache-2.0
"""What quick filters read of the devices of every node, a column each, by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from koord.controllers.scheduler.plugins.deviceshare.names import TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.scheduler.plugins.deviceshare.objects.device import DeviceInventory

T = TypeVar("T", bound=np.generic)


class DeviceColumns:
    """Columns by row.

    Attributes:
        known: bool: a Device of the node was seen.
        has: by type, bool: the node reports cards of it, healthy or not.
        well_planned: bool, see :attr:`DeviceInventory.well_planned`.
        isolation: the node's GPU isolation provider as a :meth:`code`.
        model: vendor and model of its GPUs as a :meth:`code`.
    """

    def __init__(self) -> None:
        self._codes: dict[tuple[str, ...], int] = {}
        self.known = np.zeros(0, np.bool_)
        self.well_planned = np.zeros(0, np.bool_)
        self.has = {kind: np.zeros(0, np.bool_) for kind in TYPES}
        self.isolation = np.zeros(0, np.int64)
        self.model = np.zeros(0, np.int64)

    def code(self, *texts: str) -> int:
        """A number for a text or several, the same for equal ones; 0 for nothing but empty ones."""
        if not any(texts):
            return 0
        return self._codes.setdefault(texts, len(self._codes) + 1)

    def known_code(self, *texts: str) -> int:
        """The number of what a pod asks for, -1 where no node ever had it: pods add no numbers."""
        return self._codes.get(texts, -1) if any(texts) else 0

    def isolate(self, row: int, provider: str) -> None:
        """Takes over the GPU isolation provider of a node, "" for none."""
        self.isolation[row] = self.code(provider)

    def describe(
        self, row: int, inventory: DeviceInventory | None, model: tuple[str, str] = ("", "")
    ) -> None:
        """Takes over the cards of a node.

        Args:
            row: of the node.
            inventory: its cards; None where no Device was seen.
            model: vendor and model of its GPUs.
        """
        self.known[row] = inventory is not None
        self.well_planned[row] = inventory is not None and inventory.well_planned
        for kind, column in self.has.items():
            column[row] = inventory is not None and bool(inventory.cards.get(kind))
        self.model[row] = self.code(*model)

    def grow(self, rows: int) -> None:
        """Makes the columns as long as there are rows."""
        if rows <= len(self.known):
            return
        self.known, self.well_planned = _longer(self.known, rows), _longer(self.well_planned, rows)
        self.has = {kind: _longer(column, rows) for kind, column in self.has.items()}
        self.isolation, self.model = _longer(self.isolation, rows), _longer(self.model, rows)


def _longer(column: NDArray[T], rows: int) -> NDArray[T]:
    grown = np.zeros(rows, column.dtype)
    grown[: len(column)] = column
    return grown
