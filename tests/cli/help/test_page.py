# SPDX-License-Identifier: Apache-2.0
"""Help of every program and every verb, at 80 columns and more: one style, nothing cut."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from koord.cli.completion.command_tree import CommandNode, program
from koord.cli.completion.protocol import PROGRAMS
from koord.cli.help.page import Argument, HelpFlag, HelpPage, examples, purpose, rendered
from koord.cli.options.values import duration_text
from koord.cli.terminal.text_wrap import wrapped

ENTRIES = {name: name.removeprefix("koord-").replace("-", "_") for name in PROGRAMS} | {
    "koord": "main"
}


def all_of(command: CommandNode) -> Iterator[HelpPage]:
    yield command.page
    for verb in command.verbs.values():
        yield from all_of(verb)


PAGES = {page.path: page for name in PROGRAMS for page in all_of(program(name))}


def test_the_tree_has_every_verb() -> None:
    assert [path for path in PAGES if path.count(" ") < 2] == [
        "koord", "koord check", "koord migrate", "koord up", "koord status", "koord down",
        "koord support-bundle", "koord completion", "koord topology", "koord quota",
        "koord resctrl", "koord simulate",
        "koord explain", "koord crds", "koord node", "koord admission", "koord deschedule",
        "koord-scheduler", "koord-manager", "koord-webhook", "koord-descheduler", "koordlet",
        "koord-runtime-proxy",
    ]  # fmt: skip
    assert len(PAGES) == 22 + 20


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_is_wider_than_the_terminal_or_cut(path: str, columns: int) -> None:
    text = rendered(PAGES[path], columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    # A word that was parted would be missing among the whole ones.
    page = PAGES[path]
    shown = set(text.replace("[=", " ").replace(",", ", ").split())
    for flag in page.flags:
        assert {name.rstrip(",") for name in flag.names} <= {word.rstrip(",]") for word in shown}
        assert {word for word in re.split(r"[\s,]+", flag.text) if word} <= {
            word.rstrip(",") for word in shown
        }
        assert {word for word in re.split(r"[\s,]+", flag.default) if word} <= {
            word.strip("(,)") for word in shown
        }


@pytest.mark.parametrize("path", PAGES)
def test_defaults_are_as_one_would_type_them(path: str) -> None:
    for flag in PAGES[path].flags:
        assert not re.fullmatch(r"\d+\.0|\d+:\d\d:\d\d|True|False", flag.default), flag
        assert flag.default != "None" or "None" in flag.metavar, flag
        if flag.metavar == "DURATION" and flag.default:
            assert re.fullmatch(r"(\d+h)?(\d+m)?(\d+s)?", flag.default), flag
        assert "<" not in flag.metavar, "a type is no name for a value"
        assert flag.metavar != "TEXT", "which text?"


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_a_purpose_and_an_example(path: str) -> None:
    page = PAGES[path]
    assert purpose(page).endswith(".")
    assert len(purpose(page)) <= 80
    found = examples(page)
    assert found
    for each in found:
        assert re.match(rf"([a-z_]+=\S+ )?{path}( |$)", each)


@pytest.mark.parametrize("path", PAGES)
def test_every_flag_says_what_it_does(path: str) -> None:
    for flag in PAGES[path].flags:
        assert flag.text, flag.names


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_and_version_are_flags_of_every_program(name: str) -> None:
    flags = {flag.names: flag.text for flag in program(name).page.flags}
    assert flags["-h", "--help"] == "show this help"
    assert flags["--version",] == "print the version"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_version_of_every_program(name: str) -> None:
    code = f"from koord.cli.entry import {ENTRIES[name]}; {ENTRIES[name]}()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", done.stdout)


def test_ports_are_on_loopback_unless_told_otherwise() -> None:
    found = {
        flag.names[0]: flag.default
        for name in PROGRAMS
        if name != "koord-runtime-proxy"
        for flag in program(name).page.flags
        if flag.metavar in ("HOST:PORT", "IP")
    }
    assert found == {
        "--bind-address": "127.0.0.1",
        "--metrics-addr": "127.0.0.1:8080",
        "--health-probe-addr": "127.0.0.1:8000",
        "--address": "127.0.0.1",
        "--addr": "127.0.0.1:9316",
    }
    (addr,) = (f for f in program("koord-runtime-proxy").page.flags if f.metavar == "HOST:PORT")
    assert addr.default == "127.0.0.1:9318"


def test_exit_statuses_stand_where_they_mean_something() -> None:
    with_statuses = {path for path, page in PAGES.items() if "Exit status:" in page.text}
    assert {"koord", "koord check", "koord crds check", "koord status", "koordlet"} <= with_statuses


def test_a_page_as_it_is_printed() -> None:
    text = """Count what there is.

    Some more words.

    Exit status:
      0  counted
      10  nothing

    Example: koord count --every 5s things
    """
    flags = (
        HelpFlag(("-e", "--every"), "DURATION", "how often", "30s"),
        HelpFlag(("--a-name-that-is-longer-than-all",), "a|b", "which", bare=True),
    )
    page = HelpPage("koord count", text, (Argument("THING", "what to count", several=True),), flags)
    assert (
        rendered(page, 60)
        == """Count what there is.

Usage: koord count [FLAG]... THING...

Some more words.

Arguments:
  THING  what to count

Flags:
  -e, --every DURATION          how often (default: 30s)
      --a-name-that-is-longer-than-all[=a|b]
                                which

Exit status:
  0   counted
  10  nothing

Example:
  koord count --every 5s things"""
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("a bbb,ccc,ddd,eee", ["a bbb,ccc,", "ddd,eee"]),
        ("unparted-and-long x", ["unparted-and-long", "x"]),
        ("one two\u00a0ten six", ["one", "two ten", "six"]),
        ("one (is:\u00a0abc.de/fg) x", ["one (is:", "abc.de/fg)", "x"]),
    ],
)
def test_words_stay_whole(text: str, lines: list[str]) -> None:
    assert wrapped(text, 10) == lines


def test_a_word_is_cut_where_it_must_fit() -> None:
    assert wrapped("abcdefghijklmnopqrstuvwxyz", 10, hard=True) == [
        "abcdefghij", "klmnopqrst", "uvwxyz"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(30, "30s"), (300, "5m"), (90, "1m30s"), (43_200, "12h"), (3601, "1h1s"), (1.5, "1.5s"),
     (0, "0s")],
)  # fmt: skip
def test_durations_are_written_as_they_are_typed(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
