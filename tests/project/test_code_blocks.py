# SPDX-License-Identifier: Apache-2.0
"""Every code block says how it is held to be true, and what is marked ``parse`` parses."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest
import typer.main

from koord.api import load_manifests
from koord.base.documents import parse_documents
from koord.cli.daemons import descheduler, koordlet, manager, scheduler, webhook
from koord.cli.main import build
from koord.controllers.scheduler.config.load import decode
from koord.controllers.scheduler.registry import GROUP, Registry
from koord.simulator.nodes.pools import load_pools
from tests.project.code_blocks import (
    PAGES,
    ROOT,
    blocks,
    commands,
    fault,
    masked,
    name_of,
    of,
    pages_with,
)

PAGE = """
```python run
1 + 1
```
- a list
  ```text record 2026-11-22
  $ date
  ```
```text record 2026-11-22 date
Sun
```
"""


def test_blocks_are_found_with_their_marks() -> None:
    found = blocks(PAGE)
    assert [(each.line, each.language, each.mark, each.rest) for each in found] == [
        (2, "python", "run", ""),
        (6, "text", "record", "2026-11-22"),
        (9, "text", "record", "2026-11-22 date"),
    ]
    assert found[0].text == "1 + 1\n"


@pytest.mark.parametrize(
    ("info", "text", "told"),
    [
        ("python", "", "line 2: marked '', not one of run, parse, record"),
        ("", "", "line 2: marked '', not one of run, parse, record"),
        ("sh runs", "", "line 2: marked 'runs', not one of run, parse, record"),
        ("cpp run", "", "line 2: run is for python, sh, console, not cpp"),
        ("text record", "$ date", "line 2: a record needs its date, as 2026-11-22"),
        ("text record yesterday date", "", "line 2: a record needs its date, as 2026-11-22"),
        ("text record 2026-11-22", "Sun", "line 2: a record needs its command"),
        ("yaml parse it", "", "line 2: parse takes nothing more"),
        ("text record 2026-11-22", "$ date", ""),
        ("python run", "", ""),
    ],
)
def test_marks_that_are_wrong(info: str, text: str, told: str) -> None:
    (block,) = blocks(f"\n```{info}\n{text}\n```\n")
    assert fault(block) == told


def test_what_differs_from_run_to_run_is_masked() -> None:
    one = "API server  https://127.0.0.1:40817\nnode-1   4 %   02:15:15\n"
    other = "API server  https://127.0.0.1:81\nnode-1   31.5 %   02:16:01\n\n"
    assert masked(one) == masked(other) == ["API server https://#", "node-# # % #"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_marked(page: Path) -> None:
    found = map(fault, blocks(page.read_text(encoding="utf-8")))
    assert not [each for each in found if each]


@pytest.mark.parametrize("page", pages_with("python", "parse"), ids=name_of)
def test_python_parses(page: Path) -> None:
    """Also with ``await`` outside of functions: the sentences around say in which loop."""
    for block in of(page, "python", "parse"):
        compile(block.text, f"{page.name}:{block.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def scheduler_configuration(document: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the plugins of the example whose page shows it."""
    found = Registry()
    if (path.parent / "pyproject.toml").exists():
        monkeypatch.syspath_prepend(path.parent)
        project = tomllib.loads((path.parent / "pyproject.toml").read_text())["project"]
        outside = project["entry-points"][GROUP]
        found = Registry([
            *entry_points(group=GROUP),
            *(EntryPoint(name, value, GROUP) for name, value in outside.items()),
        ])  # fmt: skip
    decode(document, name_of(path), found)


@pytest.mark.parametrize("page", pages_with("yaml", "parse"), ids=name_of)
def test_documents_are_what_koord_reads(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in of(page, "yaml", "parse"):
        for document in parse_documents(block.text, f"{page.name}:{block.line}"):
            if document["kind"] == "KubeSchedulerConfiguration":
                scheduler_configuration(document, page, monkeypatch)
            elif document["kind"] == "NodePools":
                (tmp_path / "pools.yaml").write_text(block.text)
                load_pools(tmp_path / "pools.yaml")
            else:
                load_manifests(block.text, page.name)


def lines_to_parse() -> list[tuple[str, str]]:
    """Commands that are shown and not run; of records too, for people type them."""
    pairs = [("sh", "parse"), ("console", "parse"), ("text", "record")]
    return [
        (f"{name_of(page)}:{block.line}", line)
        for language, mark in pairs
        for page in pages_with(language, mark)
        for block in of(page, language, mark)
        for line in commands(block)
    ]


def parse_koord(words: list[str]) -> None:
    """Has koord's command line read words, down to the last option, and run nothing."""
    command: Any = typer.main.get_command(build())
    context = command.make_context("koord", words)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def parse_scheduler(words: list[str]) -> None:
    """As :func:`parse_koord`."""
    typer.main.get_command(scheduler.build()).make_context(scheduler.NAME, words)


def parse_koordlet(words: list[str]) -> None:
    """As :func:`parse_koord`; the node's name comes from the environment."""
    koordlet.parse(["--node-name=node", *words])


PARSERS: dict[str, Callable[[list[str]], object]] = {
    "koord": parse_koord,
    scheduler.NAME: parse_scheduler,
    manager.NAME: manager.parse,
    webhook.NAME: webhook.parse,
    descheduler.NAME: descheduler.parse,
    koordlet.NAME: parse_koordlet,
}


def parse_line(line: str) -> str:
    """Has the program of a command line read it; the program's name, empty if it is not koord's."""
    words = shlex.split(line.partition("|")[0], comments=True)
    while words and re.match(r"[A-Za-z_]+=", words[0]):
        del words[0]
    name = words[0].removeprefix(".venv/bin/") if words else ""
    if name not in PARSERS:
        return ""
    PARSERS[name](words[1:])
    return name


@pytest.mark.parametrize(("place", "line"), lines_to_parse())
def test_commands_parse(place: str, line: str, tmp_path: Path) -> None:
    # A here-document goes on in the lines below.
    if "<<" not in line:
        done = subprocess.run(["bash", "-n", "-c", line], check=False)
        assert done.returncode == 0, place
    words = shlex.split(line.partition("|")[0], comments=True)
    parse_line(line)
    if words and words[0] == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = [word for word in words[1:] if "=" not in word]
        assert all(re.search(rf"^{each}:", makefile, re.MULTILINE) for each in targets), place


@pytest.mark.parametrize(
    "line",
    [
        "koord topology pick 4 --takn 0-3",
        "koord-scheduler --takn a.yaml",
        "koord-manager --takn=1 | head",
        "koord-webhook --takn",
        "koord-descheduler --takn=1",
        "agent_mode=hostMode NODE_NAME=$(hostname) .venv/bin/koordlet --takn",
    ],
)
def test_a_misspelt_option_does_not_parse(line: str) -> None:
    with pytest.raises(Exception, match="--takn"):
        parse_line(line)


def test_lines_of_every_program_are_parsed() -> None:
    assert {parse_line(line) for _, line in lines_to_parse()} >= set(PARSERS)
