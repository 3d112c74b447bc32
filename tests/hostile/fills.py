# SPDX-License-Identifier: Apache-2.0
"""How full the bounded tables of a running program are (docs/limits.md), told by itself.

Memory rises as long as these are not full, and a table that is cannot be told from a leak by
memory alone: who attacks for long fills them first, and looks at both.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import weakref
from pathlib import Path
from types import FrameType
from typing import Any

from koord.controllers.cluster import bounded_table
from koord.controlplane.storage.store import Store
from koord.kube.codec import interner

FILLS_FILE = "fills"
_SECONDS = 2.0


class BoundedTables:
    """Those that are made in this process from now on."""

    def __init__(self) -> None:
        self._tables: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._stores: weakref.WeakSet[Store] = weakref.WeakSet()
        make_table, make_store = bounded_table.BoundedTable.__init__, Store.__init__

        def table(made: Any, *arguments: Any, **named: Any) -> None:
            make_table(made, *arguments, **named)
            self._tables[made] = _maker(sys._getframe(1))

        def store(made: Store, *arguments: Any, **named: Any) -> None:
            make_store(made, *arguments, **named)
            self._stores.add(made)

        bounded_table.BoundedTable.__init__ = table  # type: ignore[method-assign,assignment]
        Store.__init__ = store  # type: ignore[method-assign,assignment]

    def fills(self) -> dict[str, float]:
        """Of each table, or of those that have a budget together, which part of it is used."""
        found: dict[str, float] = {}
        for table, name in list(self._tables.items()):
            budget = table._budget
            key = f"{name} of {budget.most >> 20} MiB"
            part = max(budget.size / budget.most, len(table) / table._most)
            found[key] = max(part, found.get(key, 0.0))
        for each in list(self._stores):
            found["history"] = each._history_bytes / each._limits.all_bytes
        found["shared values"] = interner._BUDGET.size / interner._SHARED_BYTES
        return found

    def tell(self, path: Path) -> None:
        """Writes them to a file, anew every few seconds, in a thread of its own."""

        def write() -> None:
            while True:
                new = path.with_suffix(".new")
                new.write_text(json.dumps(self.fills()), encoding="utf-8")
                new.replace(path)
                time.sleep(_SECONDS)

        threading.Thread(target=write, daemon=True).start()


def _maker(frame: FrameType | None) -> str:
    """Who made a table: the first module that is not the tables' own."""
    while frame is not None and frame.f_globals["__name__"] == bounded_table.__name__:
        frame = frame.f_back
    return frame.f_globals["__name__"].rpartition(".")[2] if frame is not None else ""


def told(path: Path) -> dict[str, float]:
    """What a program wrote last; nothing yet where it has written nothing."""
    try:
        found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found
