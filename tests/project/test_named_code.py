# SPDX-License-Identifier: Apache-2.0
"""The modules, names and files of koord that pages speak of are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.project.code_blocks import PAGES, ROOT, name_of, of
from tests.project.python_names import class_has, classes, exists, module_of
from tests.project.reference import lines

TOPS = ("src", "tests", "cpp", "docs", "examples", "benchmarks", "cmake", "deploy", ".ci")
MORE_PAGES = [page for top in ("tests", "deploy") for page in sorted((ROOT / top).rglob("*.md"))]
SPAN = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"koord(?:[.:]\w+)+")
ATTRIBUTE = re.compile(r"([A-Z]\w+)\.([a-z_]\w*)(?:\(.*\))?$")
FILE = re.compile(r"(?:[\w.*-]+/)*[\w*-]+\.(?:py|pyi|pyx|cpp|hpp|toml)")
FOLDER = re.compile(r"(?:\w+/){2,}")
OTHER_NAMES = re.compile(
    r"koord\.(?:h|sh|dryrun|agent\.collectors|(?:scheduler|descheduler|manager)\.\w+)\b(?!\.)"
)
"""A header, a domain, a logger and groups of entry points, which are no modules."""
PLACEHOLDER = re.compile(r"\b(?:NAME|AREA|GROUP)(?:\b|_)|_NAME\b")


@cache
def paths() -> tuple[frozenset[str], frozenset[str]]:
    """Every end of a path of a file, and of a folder, from some folder on."""
    files: set[str] = set()
    folders: set[str] = set()
    for path in [*ROOT.glob("*"), *(path for top in TOPS for path in (ROOT / top).rglob("*"))]:
        parts = path.relative_to(ROOT).parts
        ends = {"/".join(parts[start:]) for start in range(len(parts))}
        (folders if path.is_dir() else files).update(ends)
    return frozenset(files), frozenset(folders)


def spans(page: Path) -> list[str]:
    """What stands in backticks outside of code blocks."""
    return [span for line in lines(page) for span in SPAN.findall(line)]


def is_missing_file(span: str) -> bool:
    if not FILE.fullmatch(span) or PLACEHOLDER.search(span):
        return False
    pattern = re.compile(re.escape(span).replace(r"\*", "[^/]*"))
    return not any(map(pattern.fullmatch, paths()[0])) if "*" in span else span not in paths()[0]


def is_missing_folder(span: str) -> bool:
    if not FOLDER.fullmatch(span) or PLACEHOLDER.search(span):
        return False
    return span.rstrip("/") not in paths()[1]


def is_missing_name(span: str) -> bool:
    match = DOTTED.match(span)
    if match is None:
        return False
    return not exists(match.group().replace(":", ".")) and not OTHER_NAMES.match(span)


def is_missing_attribute(span: str) -> bool:
    """Of `Class.attribute` and `Class.method(...)`, where the class is one of koord's."""
    match = ATTRIBUTE.match(span)
    return match is not None and class_has(match[1], match[2]) is False


@pytest.mark.parametrize("page", [*PAGES, *MORE_PAGES], ids=name_of)
def test_pages_name_code_that_is_there(page: Path) -> None:
    tests = (is_missing_file, is_missing_folder, is_missing_name, is_missing_attribute)
    assert [_with_hint(span) for span in spans(page) if any(test(span) for test in tests)] == []


def _with_hint(span: str) -> str:
    """A span that is missing, with where its last part is by now."""
    last = span.rpartition(".")[2].partition("(")[0]
    places = ", ".join(module_of(path) for path in classes().get(last, []))
    return f"{span} (there is one in {places})" if places else span


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_blocks_import_what_is_there(page: Path) -> None:
    imports = [
        f"{node.module}.{alias.name}"
        for block in of(page, "python", "run") + of(page, "python", "parse")
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("koord")
        for alias in node.names
    ]
    assert [name for name in imports if not exists(name)] == []


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("koord.base.clock", True),
        ("koord.base.clock.VirtualLoop", True),
        ("koord.base.clock.VirtualLoop.time", True),
        ("koord.base.clock.VirtualLoop.nothing", False),
        ("koord.base.nothing", False),
        ("koord.kernels.quota", True),
        ("koord.nothing", False),
    ],
)
def test_names_are_looked_up_in_sources(name: str, there: bool) -> None:
    assert exists(name) is there


def test_what_is_missing_is_seen() -> None:
    assert is_missing_file("scheduler/no_such.py")
    assert not is_missing_file("base/clock.py")
    assert not is_missing_file("tests/kernels/test_*.py")
    assert is_missing_folder("scheduler/nothing/")
    assert not is_missing_folder("controllers/scheduler/")
    assert is_missing_name("koord.base.clock.nothing(1)")
    assert not is_missing_name("koord.scheduler.plugins")
    assert is_missing_attribute("VirtualLoop.nothing(1)")
    assert not is_missing_attribute("VirtualLoop.time()")
    assert not is_missing_attribute("Deployment.spec.replicas")
