# SPDX-License-Identifier: Apache-2.0
"""Names and values with line ends and control characters: each event stays one line.

And no code is made of what somebody wrote: what would do that is used nowhere.
"""

from __future__ import annotations

import ast
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import koord
from koord.base import log
from koord.base.errors import KoordError

FORGED = "time=2024-01-01T00:00:00.000+00:00 level=error component=agent message=forged"
ENDS = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[2K\r", "\b\b\b"]
SOURCES = sorted(Path(koord.__file__).parent.rglob("*.py"))
# Modules that run what they read, or hand it to a shell.
_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "code"}
_CALLS = {"eval", "exec", "compile", "__import__"}
_ATTRIBUTES = {
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "yaml.load",
    "yaml.unsafe_load", "yaml.full_load", "runpy.run_path", "builtins.eval",
    "builtins.exec",
}  # fmt: skip
_SHELLS = ("create_subprocess_shell", "subprocess_shell")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged as key=value."""
    root = logging.getLogger("koord")
    before = root.handlers, root.level, root.propagate
    output = io.StringIO()
    log.setup(4, output=output)
    yield output
    root.handlers, root.level, root.propagate = before


@pytest.mark.parametrize("end", ENDS)
def test_nobody_forges_a_line_of_the_log(lines: io.StringIO, end: str) -> None:
    name = f"x{end}{FORGED}"
    error = KoordError(f"Pod {name}", f"annotations[{name}]", name, f"none of {name}")
    log.get("agent").warning("pod left out", extra=log.fields(pod=name, reason=error))
    log.get("agent").warning(f"pod {name} left out")
    # Without anything else that is quoted.
    log.get("agent").warning("left", extra=log.fields(pod=f"x{end}forged"))
    said = lines.getvalue()
    assert len(said.splitlines()) == 3
    assert said.isascii() or said.replace("\n", "").isprintable()
    assert not [line for line in said.splitlines() if line.startswith(FORGED)]


@pytest.mark.parametrize("end", ENDS)
def test_nobody_forges_a_line_of_a_json_log(end: str) -> None:
    output = io.StringIO()
    root = logging.getLogger("koord")
    before = root.handlers, root.level, root.propagate
    try:
        log.setup(4, as_json=True, output=output)
        log.get("agent").warning("left out", extra=log.fields(pod=f"x{end}{FORGED}"))
    finally:
        root.handlers, root.level, root.propagate = before
    [line] = output.getvalue().splitlines()
    assert json.loads(line)["pod"] == f"x{end}{FORGED}"


def _dangerous(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.split(".")[0] in _MODULES)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in _MODULES:
                yield f"from {node.module}"
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in _CALLS:
                yield f"{called.id}()"
            if isinstance(called, ast.Attribute):
                whole = ast.unparse(called)
                if whole in _ATTRIBUTES or whole.endswith(_SHELLS):
                    yield f"{whole}()"
            for word in node.keywords:
                constant = isinstance(word.value, ast.Constant) and not word.value.value
                if word.arg == "shell" and not constant:
                    yield "shell="
                if word.arg == "allow_pickle" and not constant:
                    yield "allow_pickle="


def test_nothing_unpickles_evaluates_or_asks_a_shell() -> None:
    found = {
        f"{path.relative_to(SOURCES[0].parents[0]).as_posix()}:{what}"
        for path in SOURCES
        for what in _dangerous(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from marshal import loads", "eval(text)", "exec(text)", "os.system(text)",
        "subprocess.run(text, shell=True)", "subprocess.run(text, shell=chosen)", "yaml.load(text)",
        "numpy.load(file, allow_pickle=True)", "asyncio.create_subprocess_shell(text)",
        "yaml.unsafe_load(text)", "runpy.run_path(text)",
    ],
)  # fmt: skip
def test_each_of_them_would_be_found(text: str) -> None:
    assert list(_dangerous(ast.parse(text)))
