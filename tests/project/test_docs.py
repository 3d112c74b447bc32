# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows runs, comes out as it says, and links to what exists."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from koord import api
from koord.cli.main import main
from tests.api.samples import DATA, make_node, make_pod
from tests.kernels.cgroup_tree import put
from tests.kernels.sysfs_builder import Thread, write_sysfs
from tests.kernels.test_resctrl import tree as write_resctrl
from tests.project.code_blocks import PAGES, ROOT, commands, masked, name_of, of, pages_with

INCLUDE = re.compile(r'^#include ["<](koord/[\w.]+)[">]\n', re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def given(page: str) -> dict[str, Any]:
    """The names that a page takes as known from its sentences."""
    config = SimpleNamespace(data={})
    return {
        "docs/api.md": {
            "watch_event_bytes": api.encode(make_pod()),
            "request_body": b'{"apiVersion": "v1", "kind": "Pod"}',
            "stored_bytes": b'{"apiVersion": "scheduling.koordinator.sh/v1alpha1",'
            b' "kind": "Reservation"}',
            "config_map": config,
            "previous": None,
            "node": make_node(),
        },
        "docs/kernels/cgroup.md": {"directories": ["kubepods.slice"]},
        "docs/kernels/series.md": {"usage": np.linspace(0, 1, 500)},
    }.get(page, {})


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str], str]:
    """Puts a small machine in the place of the one that a snippet reads."""
    write_sysfs(tmp_path / "root", [Thread(cpu, core=cpu // 2) for cpu in range(8)])
    ten_ways = {"info/L3/cbm_mask": "3ff\n", "schemata": "MB:0=100;1=100\nL3:0=3ff;1=3ff\n"}
    write_resctrl(tmp_path / "resctrl", **ten_ways)
    for pod in ("", "kubepods-podU.slice/C"):
        put(tmp_path / "cgroup", 2, f"kubepods.slice/{pod}")
    (tmp_path / "manifests.yaml").write_bytes((DATA / "guide/nodeslo.yaml").read_bytes())
    places = {
        '"/"': "root",
        '"/sys/fs/resctrl"': "resctrl",
        '"/sys/fs/cgroup"': "cgroup",
        '"manifests.yaml"': "manifests.yaml",
    }

    def moved(snippet: str) -> str:
        for there, here in places.items():
            snippet = snippet.replace(there, repr(str(tmp_path / here)))
        return snippet

    return moved


def run(snippet: str, names: dict[str, Any]) -> list[tuple[object, str, str]]:
    """Runs a snippet; gives the value of each bare expression, what it prints, and the comment."""
    lines = snippet.splitlines()
    shown: list[tuple[object, str, str]] = []
    for statement in ast.parse(snippet).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "snippet", "exec"), names)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = eval(compile(ast.Expression(statement.value), "snippet", "eval"), names)
        last = lines[(statement.end_lineno or 0) - 1]
        comment = last[statement.end_col_offset or 0 :].partition("# ")[2]
        shown.append((value, printed.getvalue(), comment))
    return shown


def differs(value: object, printed: str, comment: str) -> str:
    """What is wrong with the comment behind an expression; empty if nothing is.

    What is printed stands there, numbers aside, or words that say what it is.
    """
    values = promised(comment)
    if printed:
        if not comment or not printed.strip():
            return f"prints {printed!r}, which is not shown"
        wrong = values and masked(printed) != masked(comment)
        return f"prints {printed!r}, not {comment!r}" if wrong else ""
    wrong = values and value is not None and value not in values
    return f"is {value!r}, not {comment!r}" if wrong else ""


def promised(comment: str) -> list[object]:
    """What a comment such as ``2: rounded up`` can be read to promise; empty for plain words."""
    values = []
    for end in (match.start() for match in re.finditer(r"[,:;]|\s|$", comment)):
        try:
            values.append(ast.literal_eval(comment[:end]))
        except (SyntaxError, ValueError):
            continue
    return values


@pytest.mark.parametrize("page", pages_with("python", "run"), ids=name_of)
def test_python_snippets_run_and_give_what_they_say(
    page: Path, machine: Callable[[str], str]
) -> None:
    names = given(name_of(page))
    for block in of(page, "python", "run"):
        for value, printed, comment in run(machine(block.text), names):
            assert not differs(value, printed, comment)


@pytest.mark.parametrize(
    ("snippet", "wrong"),
    [
        ("1 + 1  # 2", ""),
        ("1 + 1  # 3: rounded", "is 2, not '3: rounded'"),
        ('print(3.5, "kept")  # 7 kept', ""),
        ('print(3.5, "kept")  # 7 taken', r"prints '3.5 kept\n', not '7 taken'"),
        ('print("a")  # a letter', ""),
        ('print("a")', r"prints 'a\n', which is not shown"),
        ('print("")  # the reason', r"prints '\n', which is not shown"),
    ],
)
def test_a_comment_that_is_not_so_is_found(snippet: str, wrong: str) -> None:
    (shown,) = run(snippet, {})
    assert differs(*shown) == wrong


def lines_to_run(language: str) -> list[tuple[str, str]]:
    return [
        (name_of(page), line)
        for page in pages_with(language, "run")
        for block in of(page, language, "run")
        for line in commands(block)
    ]


def expand(word: str) -> list[str]:
    """What a shell makes of a word: the files that a pattern matches, from the project's folder.

    Two of them show what ten would.
    """
    if "*" not in word:
        return [word]
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word))[:2]


def call(command: str, reports: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Runs a command of koord in this process; its exit status."""
    files = {
        "reports/openb": reports,
        "quotas.yaml": DATA / "guide/elasticquotas.yaml",
        "slo-controller-config.yaml": DATA / "releases/resource-qos-config.yaml",
    }
    # One seed shows what ten would, and what two do through the whole scheduler, which takes long.
    words = {"42-51": "42", "42,43": "42", "team-a:cpu=90": "team-a-quota:cpu=90"}
    typed = [str(files.get(word, words.get(word, word))) for word in shlex.split(command)]
    shown = [name for word in typed for name in expand(word)]
    assert shown[0] == "koord", "only koord's own commands are run"
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", shown)
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


@pytest.mark.parametrize(("page", "command"), lines_to_run("sh"))
def test_commands_run(
    page: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = call(command, tmp_path, monkeypatch)
    # A machine that is slow sees how far the command is.
    err = re.sub(r"^[^:\n]+: \d+ %, about .* left\n", "", capsys.readouterr().err, flags=re.M)
    assert (status, err) == (0, ""), page


@pytest.mark.parametrize("page", pages_with("console", "run"), ids=name_of)
def test_sessions_print_what_they_show(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for block in of(page, "console", "run"):
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            assert call(command, tmp_path, monkeypatch) == 0
            assert masked(capsys.readouterr().out) == masked(shown), command


def test_cpp_snippets_compile(tmp_path: Path) -> None:
    """All in one file, each in a function of its own; a page's sentences imply its header."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    implied = {
        "cpuset": "const auto use = [](int) {};",
        "devices": "std::vector<koord::devices::Device> devices;"
        "std::vector<std::int64_t> amounts{100, 0};",
        "cgroup": "std::vector<std::string> directories;",
        "placement": "using namespace koord::placement;",
    }
    headers, bodies = {"koord/devices.hpp", "koord/placement_policy.hpp", "koord/quota.hpp"}, []
    for page in pages_with("cpp", "parse"):
        for number, block in enumerate(of(page, "cpp", "parse")):
            headers |= set(INCLUDE.findall(block.text))
            code = f'{implied.get(page.stem, "")}\n#line {block.line + 1} "{page.name}"\n'
            code += INCLUDE.sub("", block.text)
            bodies.append(f"void {page.stem}_{number}() {{{code}}}\n")
    source = tmp_path / "snippets.cpp"
    source.write_text("".join(f"#include <{name}>\n" for name in sorted(headers)) + "".join(bodies))
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'cpp/include'}", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
