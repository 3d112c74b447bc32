# SPDX-License-Identifier: Apache-2.0
"""The reference pages: their headings, their differences from Koordinator, and the list of these.

``python -m tests.project.reference`` writes docs/differences.md.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from tests.project.code_blocks import ROOT

DOCS = ROOT / "docs"
LIST = DOCS / "differences.md"
_HEAD = """\
# Where koord differs from Koordinator on purpose

Everywhere else koord agrees with Koordinator, odd corners included, because clusters mix both. Each
difference stands with the rule that it belongs to, in the [reference](reference/index.md), under
the name that it has here, and tests that compare koord with Koordinator's own answers call it by
that name, too. This list is made of those pages by `python -m tests.project.reference`.
"""
_PARTS = ("Koordinator", "koord", "Why")
_WIDTH = 126
_BEGIN = re.compile(r'^!!! difference "([^"]*)"$')
_HEADING = re.compile(r"^(#{1,6}) (.*)$")
_LINK = re.compile(r"\]\((?!https?:)([^)]+)\)")


class Heading(NamedTuple):
    """A heading of a page: how deep, its text, and the anchor that links use."""

    level: int
    text: str
    anchor: str


class Difference(NamedTuple):
    """A difference from Koordinator.

    Args:
        name: what tests call it.
        page: where it stands.
        heading: in whose section.
        koordinator, koord, why: what each does, and the reason; a line each.
    """

    name: str
    page: Path
    heading: Heading
    koordinator: str
    koord: str
    why: str


def pages() -> list[Path]:
    """The reference, in its order."""
    return sorted((DOCS / "reference").glob("*.md"))


def lines(page: Path) -> list[str]:
    """The lines of a page, those in code blocks empty."""
    found, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.lstrip().startswith("```")
        found.append("" if inside or fence else line)
        inside ^= fence
    return found


def anchor(text: str) -> str:
    """What links to a heading use: lower case, hyphens for spaces, no punctuation."""
    plain = re.sub(r"\]\([^)]*\)", "", text)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")


def headings(page: Path) -> list[Heading]:
    """All headings of a page."""
    found = filter(None, map(_HEADING.match, lines(page)))
    return [Heading(len(each[1]), each[2], anchor(each[2])) for each in found]


def differences(page: Path) -> list[Difference]:
    """The differences that a page tells of.

    Raises:
        ValueError: one is not in the form that CONTRIBUTING.md shows; the message says where.
    """
    found: list[Difference] = []
    heading = Heading(1, page.stem, "")
    text = lines(page)
    for number, line in enumerate(text):
        if match := _HEADING.match(line):
            heading = Heading(len(match[1]), match[2], anchor(match[2]))
        elif match := _BEGIN.match(line):
            parts = _parts(text[number + 1 :])
            if tuple(parts) != _PARTS or not all(parts.values()):
                where = f"{page.name}:{number + 1}"
                raise ValueError(f"{where}: {match[1]} has {list(parts)}, not {list(_PARTS)}")
            found.append(Difference(match[1], page, heading, *parts.values()))
    return found


def _parts(text: list[str]) -> dict[str, str]:
    """The indented paragraphs that follow, by the bold word they begin with."""
    found: dict[str, str] = {}
    for line in text:
        if line and not line.startswith("    "):
            break
        if match := re.match(r"    \*\*(\w+):\*\* (.*)", line):
            found[match[1]] = match[2].strip()
        elif line.strip() and found:
            found[next(reversed(found))] += f" {line.strip()}"
    return found


def document() -> str:
    """The list of all differences, by page."""
    said = [_HEAD]
    for page in pages():
        here = differences(page)
        if here:
            said.append(f"\n## {headings(page)[0].text}\n")
            said += map(_item, here)
    return "\n".join(said)


def _item(each: Difference) -> str:
    link = f"[{each.heading.text}](reference/{each.page.name}#{each.heading.anchor})"
    told = zip(_PARTS, (each.koordinator, each.koord, each.why), strict=True)
    parts = " ".join(f"*{part}:* {_moved(text, each.page)}" for part, text in told)
    return textwrap.fill(
        f"- **`{each.name}`** ({link}). {parts}", _WIDTH, subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _moved(text: str, page: Path) -> str:
    """Links as they are one folder higher."""

    def link(match: re.Match[str]) -> str:
        target = f"{page.name}{match[1]}" if match[1].startswith("#") else match[1]
        return f"]({target[3:] if target.startswith('../') else f'reference/{target}'})"

    return _LINK.sub(link, text)


if __name__ == "__main__":
    LIST.write_text(document(), encoding="utf-8")
    print(
        f"{LIST.relative_to(ROOT)}: {sum(len(differences(page)) for page in pages())} differences"
    )
