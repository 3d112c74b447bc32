# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the documentation, and how each is held to be true.

The info string of a block is its language and a mark, of which pages show nothing:

- ``run``: it is run, and what it prints is compared with what it shows, numbers masked.
- ``parse``: it goes through the parser of the program that it is for.
- ``record DATE COMMAND``: what a command printed on that day, kept by hand. A block that has the
  command in itself, behind ``$``, needs none here.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LANGUAGES = {
    "run": ("python", "sh", "console"),
    "parse": ("python", "sh", "console", "cpp", "yaml"),
    "record": ("text",),
}
_NUMBER = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")


class Block(NamedTuple):
    """A code block.

    Args:
        line: of the fence that begins it, from 1.
        language: empty without one.
        mark: empty without one.
        rest: what stands behind the mark.
        text: between the fences.
    """

    line: int
    language: str
    mark: str
    rest: str
    text: str


def blocks(page: str) -> list[Block]:
    """The code blocks of a page's text, indented ones too."""
    found: list[Block] = []
    begun: tuple[int, list[str]] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.splitlines(), 1):
        fence = re.match(r"\s*```\s*(.*)", line)
        if fence is None:
            inside.append(line)
        elif begun is None:
            begun, inside = (number, fence[1].split(maxsplit=2)), []
        else:
            at, (language, mark, rest) = begun[0], (*begun[1], "", "", "")[:3]
            found.append(Block(at, language, mark, rest, "".join(f"{each}\n" for each in inside)))
            begun = None
    return found


def of(page: Path, language: str, mark: str) -> list[Block]:
    """The blocks of a page with a language and a mark."""
    found = blocks(page.read_text(encoding="utf-8"))
    return [each for each in found if (each.language, each.mark) == (language, mark)]


def pages_with(language: str, mark: str) -> list[Path]:
    """The pages that have such blocks."""
    return [page for page in PAGES if of(page, language, mark)]


def name_of(page: Path) -> str:
    """A page as tests name it."""
    return str(page.relative_to(ROOT))


def fault(block: Block) -> str:
    """What is wrong with a block's mark; empty if nothing is."""
    if block.mark not in LANGUAGES:
        return f"line {block.line}: marked {block.mark!r}, not one of {', '.join(LANGUAGES)}"
    if block.language not in LANGUAGES[block.mark]:
        allowed = ", ".join(LANGUAGES[block.mark])
        return f"line {block.line}: {block.mark} is for {allowed}, not {block.language}"
    if block.mark != "record":
        return f"line {block.line}: {block.mark} takes nothing more" if block.rest else ""
    day, _, command = block.rest.partition(" ")
    try:
        date.fromisoformat(day)
    except ValueError:
        return f"line {block.line}: a record needs its date, as 2026-11-22"
    if not command and not re.search(r"^\$ \S", block.text, re.MULTILINE):
        return f"line {block.line}: a record needs its command"
    return ""


def commands(block: Block) -> list[str]:
    """The command lines of a block; of a console or record, what stands behind ``$``."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "sh":
        return [line for line in lines if line.strip() and not line.startswith("#")]
    return [line[2:] for line in lines if line.startswith("$ ")]


def masked(text: str) -> list[str]:
    """Lines without numbers, times and ports, and without the width that these had."""
    lines = (" ".join(_NUMBER.sub("#", line).split()) for line in text.splitlines())
    return [line for line in lines if line]
