# SPDX-License-Identifier: Apache-2.0
"""Import circles between files.

Every import counts, those in functions and under ``TYPE_CHECKING`` too: who reads the one file has
to read the other. A package's ``__init__`` is a file like others; that an import of ``a.b.c`` runs
``a.b`` counts as no import of it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.project.house.source_tree import Module, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

Graph = dict[str, dict[str, set[str]]]
"""By importing module and imported module, the names that the first takes from the second."""


def violations(imports: Graph) -> list[Violation]:
    """The imports of which circles are made, circle by circle, the largest first.

    An import rather than a circle is what is allowed, for a circle that loses a file is another.
    """
    return [
        Violation(
            f"{importer} -> {target}",
            f"circle of {len(circle)} files: {importer} -> {target}"
            + (f" ({', '.join(names)})" if (names := sorted(filter(None, taken))) else ""),
        )
        for circle in circles(imports)
        for importer in circle
        for target, taken in sorted(imports[importer].items())
        if target in circle
    ]


def graph(modules: dict[str, Module]) -> Graph:
    """Who imports whom, of these modules alone."""
    imports: Graph = {name: {} for name in modules}
    for name, module in modules.items():
        for source, member in _imported(module, name):
            inner = f"{source}.{member}"
            target, taken = (inner, "") if member and inner in modules else (source, member)
            if target in modules and target != name:
                imports[name].setdefault(target, set()).add(taken)
    return imports


def _imported(module: Module, name: str) -> Iterator[tuple[str, str]]:
    """(module, name taken from it) of each import; no name for ``import a.b``."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parents = name.split(".")
                up = node.level - module.is_package
                base = parents[: len(parents) - up]
                source = ".".join([*base, *([source] if source else [])])
            for alias in node.names:
                yield source, alias.name


def circles(imports: Graph) -> list[list[str]]:
    """Modules that reach each other, two or more at a time, the most first.

    These are the strongly connected components by the two passes of Kosaraju's algorithm.
    """
    importers: dict[str, list[str]] = {name: [] for name in imports}
    for importer, targets in imports.items():
        for target in targets:
            importers[target].append(importer)
    component: dict[str, str] = {}
    for root in reversed(_finished(imports)):
        stack = [root]
        while stack:
            name = stack.pop()
            if name not in component:
                component[name] = root
                stack += importers[name]
    members: dict[str, list[str]] = {}
    for name in sorted(component):
        members.setdefault(component[name], []).append(name)
    several = [names for names in members.values() if len(names) > 1]
    return sorted(several, key=lambda names: (-len(names), names))


def _finished(imports: Graph) -> list[str]:
    """All modules in the order in which a walk along imports is done with them."""
    order: list[str] = []
    begun: set[str] = set()
    for root in sorted(imports):
        stack = [(root, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                order.append(name)
            elif name not in begun:
                begun.add(name)
                stack.append((name, True))
                stack += ((target, False) for target in sorted(imports[name]))
    return order
