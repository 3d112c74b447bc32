# SPDX-License-Identifier: Apache-2.0
"""Classes of one name in two modules or more: one name means one thing.

Leading underscores make no other name. Classes within classes and functions do not count.
"""

from __future__ import annotations

import ast

from tests.project.house.source_tree import Module, Violation


def violations(modules: dict[str, Module]) -> list[Violation]:
    """Each class whose name another has, by name."""
    homes: dict[str, list[str]] = {}
    for name, module in modules.items():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), []).append(name)
    return [
        Violation(f"{class_name} in {home}", f"{class_name}: {', '.join(all_homes)}")
        for class_name, all_homes in sorted(homes.items())
        if len(all_homes) > 1
        for home in all_homes
    ]
