# SPDX-License-Identifier: Apache-2.0
"""Whether a dotted name of koord exists, read from the sources without importing anything."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def exists(name: str) -> bool:
    """Whether ``koord.a.b``, ``koord.a.b.C`` or ``koord.a.b.C.attribute`` is there.

    Attributes that a class inherits count, those that an object gets from outside do not.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = module_path(".".join(parts[:length]))
        if path is not None:
            return _has(path, parts[length:])
    return False


def module_of(path: Path) -> str:
    """The dotted name of a file below ``src``."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_path(module: str) -> Path | None:
    """The file of a module, or the stub of a native one; None if there is none."""
    base = ROOT / "src" / Path(*module.split("."))
    candidates = (
        base.with_suffix(".py"), base / "__init__.py", base.with_suffix(".pyi"),
        base / "__init__.pyi",
    )  # fmt: skip
    return next((path for path in candidates if path.exists()), None)


def _has(path: Path, names: list[str]) -> bool:
    if not names:
        return True
    node = _declarations(path).get(names[0])
    if node is None:
        return False
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or exists(".".join([node.module or "", *names]))
    if len(names) == 1:
        return True
    return isinstance(node, ast.ClassDef) and names[1] in _members(path, node)


def class_has(cls: str, attribute: str) -> bool | None:
    """Whether a class of that name has an attribute; None where koord has no such class.

    Where several have the name, one of them is enough.
    """
    paths = classes().get(cls)
    if paths is None:
        return None
    nodes = [(path, _declarations(path).get(cls)) for path in paths]
    return any(
        attribute in _members(path, node) for path, node in nodes if isinstance(node, ast.ClassDef)
    )


@cache
def classes() -> dict[str, list[Path]]:
    """The modules that have a class at their top level, by its name."""
    paths: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for name in _CLASS.findall(path.read_text(encoding="utf-8")):
            paths.setdefault(name, []).append(path)
    return paths


@cache
def _declarations(path: Path) -> dict[str, ast.AST]:
    """What a module binds, by name."""
    return dict(_bound(ast.parse(path.read_text(encoding="utf-8")).body))


def _bound(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ImportFrom | ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], node
        elif isinstance(node, ast.If | ast.Try):
            yield from _bound([*node.body, *node.orelse])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (inner for target in targets for inner in ast.walk(target)):
                if isinstance(name, ast.Name):
                    yield name.id, node


def _members(path: Path, cls: ast.ClassDef) -> set[str]:
    """Attributes and methods of a class, with those of its bases as far as these are koord's."""
    members = {name for name, _ in _bound(cls.body)}
    members |= {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for base in cls.bases:
        node = _declarations(path).get(ast.unparse(base).partition("[")[0])
        source = path
        if isinstance(node, ast.ImportFrom) and (found := module_path(node.module or "")):
            source, node = found, _declarations(found).get(ast.unparse(base).partition("[")[0])
        if isinstance(node, ast.ClassDef):
            members |= _members(source, node)
    return members
