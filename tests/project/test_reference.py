# SPDX-License-Identifier: Apache-2.0
"""The reference is whole: what is cited is there, and the list of differences is what pages say."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.project.code_blocks import PAGES, ROOT, name_of
from tests.project.reference import LIST, anchor, differences, document, headings, lines, pages

SOURCES = [
    path
    for folder in ("src", "cpp", "tests", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".pyx", ".pyi", ".cpp", ".hpp", ".h"} and path != Path(__file__)
]
CITATION = re.compile(r"docs/([\w/-]+\.md)(?:#([\w-]+))?")
FOREIGN = re.compile(
    r"\b[Ss]pec(?:ification)? sections? \d|\b[Ss]pec [a-z-]+, \d|\brelease F\d"
    r"|(?<!RFC 7386, )\bsection \d"
)
ANCHORED = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")
PAGE = """\
# Quotas

## What is `left` [over](x.md), and who gets it

!!! difference "quota-left"
    **Koordinator:** gives it to
    the first.

    **koord:** shares it.

    **Why:** fairness.

```text record 2026-11-23 date
# no heading
```
"""


def test_pages_are_read(tmp_path: Path) -> None:
    page = tmp_path / "quota.md"
    page.write_text(PAGE)
    assert [each.anchor for each in headings(page)] == [
        "quotas",
        "what-is-left-over-and-who-gets-it",
    ]
    (found,) = differences(page)
    assert (found.name, found.koordinator, found.koord, found.why) == (
        "quota-left", "gives it to the first.", "shares it.", "fairness.",
    )  # fmt: skip
    assert found.heading.anchor == "what-is-left-over-and-who-gets-it"
    page.write_text(PAGE.replace("**Why:**", "Because"))
    with pytest.raises(ValueError, match=r"quota.md:5: quota-left has \['Koordinator', 'koord'\]"):
        differences(page)


def test_anchors_are_those_of_markdown() -> None:
    assert anchor("`min` and `max`: who (really) gets it?") == "min-and-max-who-really-gets-it"


def test_differences_have_names_of_their_own() -> None:
    counts = Counter(each.name for page in pages() for each in differences(page))
    assert len(counts) > 300
    assert [name for name, count in counts.items() if count > 1] == []
    assert [name for name in counts if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)] == []


def test_the_list_of_differences_is_made_of_the_pages() -> None:
    assert LIST.read_text(encoding="utf-8") == document(), "python -m tests.project.reference"


def test_code_cites_what_is_there() -> None:
    wrong, count = [], 0
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for page, heading in CITATION.findall(text):
            there = ROOT / "docs" / page
            count += 1
            if not there.exists() or (heading and heading not in _anchors(there)):
                wrong.append(f"{path.relative_to(ROOT)}: {page}#{heading}")
    assert wrong == []
    assert count > 300


def test_code_cites_nothing_that_is_not_here() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in SOURCES
        for match in FOREIGN.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_headings(page: Path) -> None:
    for target, heading in ANCHORED.findall("\n".join(lines(page))):
        there = (page.parent / target).resolve() if target else page
        if there.suffix == ".md":
            assert heading in _anchors(there), f"{target}#{heading}"


def _anchors(page: Path) -> set[str]:
    return {each.anchor for each in headings(page)}
