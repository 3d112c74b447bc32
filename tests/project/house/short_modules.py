# SPDX-License-Identifier: Apache-2.0
"""Modules of fewer than 40 lines that one other module uses: they join it.

The ``__init__`` of a package is none. A module that no other imports is none either: a name in a
table finds it, or it is dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.project.house.source_tree import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.project.house.import_circles import Graph
    from tests.project.house.source_tree import Module

LEAST_LINES = 40


def violations(modules: dict[str, Module], imports: Graph) -> Iterator[Violation]:
    """Such modules by name, each with who uses it."""
    users: dict[str, list[str]] = {name: [] for name in modules}
    for user, targets in imports.items():
        for target in targets:
            users[target].append(user)
    for name, module in modules.items():
        is_short = not module.is_package and module.line_count < LEAST_LINES
        if is_short and len(users[name]) == 1:
            yield Violation(name, f"{module.path}: {module.line_count} lines, for {users[name][0]}")
