# SPDX-License-Identifier: Apache-2.0
"""What files said when they were last compared or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.target import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.executor.target import Value


class ValueMemory(dict[Target, "Value"]):
    """Values by target; who asks for the same ones every second is answered at once."""

    def __init__(self) -> None:
        super().__init__()
        self._generation = 0
        self._queries: dict[str, tuple[Sequence[str], int, list[Value | None]]] = {}

    def note(self, target: Target, value: Value) -> None:
        """Remembers what a file says now."""
        if self.get(target) != value:
            self._generation += 1
            self[target] = value

    def forget(self, target: Target) -> None:
        """Of a file that nobody compares any more."""
        if target in self:
            self._generation += 1
            del self[target]

    def of(self, resource: str, directories: Sequence[str]) -> list[Value | None]:
        """The files of many directories; None where it was never compared.

        The same list while the values and the directories, as an object, are the same.
        """
        query = self._queries.get(resource)
        if query is None or query[0] is not directories or query[1] != self._generation:
            found = [self.get(Target(resource, directory)) for directory in directories]
            self._queries[resource] = query = (directories, self._generation, found)
        return query[2]
