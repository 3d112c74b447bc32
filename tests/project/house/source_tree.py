# SPDX-License-Identifier: Apache-2.0
"""The modules of a package, each parsed once for all checks."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Module(NamedTuple):
    """A Python file below ``src``.

    Args:
        path: of the file, from the folder that holds ``src``.
        is_package: whether it is the ``__init__`` of a package.
        line_count: lines of the file.
        tree: what it says.
    """

    path: Path
    is_package: bool
    line_count: int
    tree: ast.Module


class Violation(NamedTuple):
    """Something against a rule.

    Args:
        key: what it is called in the list of what is allowed; it has no line number, so that it
            outlives changes around it.
        text: a line for a developer, with the place.
    """

    key: str
    text: str


def modules(src: Path, package: str) -> dict[str, Module]:
    """All modules of a package, by dotted name in the order of their paths."""
    files = {}
    for path in sorted((src / package).rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        text = path.read_text(encoding="utf-8")
        files[".".join(parts[:-1] if is_package else parts)] = Module(
            path.relative_to(src.parent), is_package, text.count("\n"), ast.parse(text)
        )
    return files


def bound_names(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that an assignment binds, with their lines."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    else:
        targets = []
    for target in targets:
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(part, ast.Name):
                yield part.id, part.lineno
