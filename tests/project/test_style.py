# SPDX-License-Identifier: Apache-2.0
"""Rules of the house that a machine can hold: what a reader should never have to say in review."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

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


# Thousands of files: a test for each would cost more in pytest than what it looks at.
def file_faults(path: Path) -> list[str]:
    """What a file has of a wrong licence line, length or end, with the line's number."""
    lines = path.read_text(encoding="utf-8").splitlines()
    stub = path.suffix == ".pyi"
    faults = []
    if lines and not stub and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
        faults.append("1: no licence line")
    if len(lines) > LONGEST_FILE:
        faults.append(f"{len(lines)}: at most {LONGEST_FILE} lines")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE and not stub:
            faults.append(f"{number}: too long")
        # This file names what it looks for.
        if path != Path(__file__) and UNFINISHED.search(line):
            faults.append(f"{number}: unfinished")
    return faults


def test_files_are_licensed_short_and_finished() -> None:
    assert [f"{_named(path)}:{fault}" for path in code_files() for fault in file_faults(path)] == []


def python_faults(source: str) -> list[str]:
    """Functions that do not fit on a screen and misplaced fields, with the line's number."""
    nodes = list(ast.walk(ast.parse(source)))
    long = [
        f"{node.lineno}: {node.name} has more than {LONGEST_FUNCTION} lines"
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    return long + [f"field() in {name}, no dataclass" for name in misplaced_fields(nodes)]


def test_functions_fit_on_a_screen_and_fields_are_in_dataclasses() -> None:
    found = [
        f"{_named(path)}:{fault}"
        for path in python_files()
        for fault in python_faults(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def misplaced_fields(nodes: list[ast.AST]) -> list[str]:
    """Classes that are no dataclasses and have a field() of ``dataclasses``.

    A msgspec struct takes it for the default value itself.
    """
    names = {
        "field"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        for alias in node.names
        if (alias.asname or alias.name) == "field"
    } | {"dataclasses.field"}
    return [
        cls.name
        for cls in nodes
        if isinstance(cls, ast.ClassDef)
        and not any("dataclass" in ast.unparse(each) for each in cls.decorator_list)
        for line in cls.body
        if isinstance(line, ast.AnnAssign | ast.Assign)
        and isinstance(line.value, ast.Call)
        and ast.unparse(line.value.func) in names
    ]


def test_a_field_in_the_wrong_class_is_found() -> None:
    source = (
        "from dataclasses import dataclass, field\n"
        "class A(Struct):\n    x: dict = field(default_factory=dict)\n"
        "@dataclass\nclass B:\n    x: dict = field(default_factory=dict)\n"
    )
    assert python_faults(source) == ["field() in A, no dataclass"]


def test_what_breaks_the_rules_is_found(tmp_path: Path) -> None:
    body = "".join(f"    x = {i}\n" for i in range(LONGEST_FUNCTION))
    assert python_faults(f"def f():\n{body}") == [f"1: f has more than {LONGEST_FUNCTION} lines"]
    assert python_faults(f"async def f():\n{body[:-9]}") == []
    path = tmp_path / "a.py"
    path.write_text("x\n" + "y" * 101 + "\n# TO" + "DO\n" + "\n" * LONGEST_FILE)
    lines = LONGEST_FILE + 3
    long = f"{lines}: at most {LONGEST_FILE} lines"
    assert file_faults(path) == ["1: no licence line", long, "2: too long", "3: unfinished"]


def test_no_path_of_a_machine_is_written_down() -> None:
    machine = re.compile(r"(?<![\w.])/(work|root|home)/\w")
    for path in (*code_files(), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        if path != Path(__file__):
            assert not machine.search(path.read_text(encoding="utf-8")), path
