# SPDX-License-Identifier: Apache-2.0
"""Rules of the house that a machine can hold: what a reader should never have to say in review."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "cpp", "tests", "benchmarks", "examples", "cmake")
CODE = {".py", ".pyi", ".pyx", ".pxi", ".cpp", ".hpp", ".h", ".c"}
LONGEST_LINE = 100
LONGEST_FILE = 600
LONGEST_FUNCTION = 70
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


@cache
def code_files() -> tuple[Path, ...]:
    found = [path for top in SOURCES for path in (ROOT / top).rglob("*") if path.suffix in CODE]
    assert len(found) > 50
    return tuple(sorted(found))


def python_files() -> list[Path]:
    return [path for path in code_files() if path.suffix == ".py"]


@pytest.mark.parametrize("path", code_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_licensed_short_and_finished(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines and path.suffix != ".pyi":
        assert "SPDX-License-Identifier: Apache-2.0" in "\n".join(lines[:2])
    assert len(lines) <= LONGEST_FILE
    for number, line in enumerate(lines, 1):
        assert len(line) <= LONGEST_LINE or path.suffix == ".pyi", f"line {number} is too long"
        assert path == Path(__file__) or not UNFINISHED.search(line), f"line {number}: unfinished"


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_fit_on_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, node.name


def misplaced_fields(source: str) -> list[str]:
    """Classes that are no dataclasses and have a field() of ``dataclasses``.

    A msgspec struct takes it for the default value itself.
    """
    tree = ast.parse(source)
    names = {
        "field"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        for alias in node.names
        if (alias.asname or alias.name) == "field"
    } | {"dataclasses.field"}
    return [
        cls.name
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        and not any("dataclass" in ast.unparse(each) for each in cls.decorator_list)
        for line in cls.body
        if isinstance(line, ast.AnnAssign | ast.Assign)
        and isinstance(line.value, ast.Call)
        and ast.unparse(line.value.func) in names
    ]


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_fields_of_dataclasses_are_in_dataclasses(path: Path) -> None:
    assert misplaced_fields(path.read_text(encoding="utf-8")) == []


def test_a_field_in_the_wrong_class_is_found() -> None:
    source = (
        "from dataclasses import dataclass, field\n"
        "class A(Struct):\n    x: dict = field(default_factory=dict)\n"
        "@dataclass\nclass B:\n    x: dict = field(default_factory=dict)\n"
    )
    assert misplaced_fields(source) == ["A"]


def test_no_path_of_a_machine_is_written_down() -> None:
    machine = re.compile(r"(?<![\w.])/(work|root|home)/\w")
    for path in (*code_files(), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        if path != Path(__file__):
            assert not machine.search(path.read_text(encoding="utf-8")), path
