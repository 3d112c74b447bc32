# SPDX-License-Identifier: Apache-2.0
"""The glossary has one sentence a word, and types that are there."""

from __future__ import annotations

import re
from collections import Counter

from tests.project.python_names import ROOT, exists

PAGE = ROOT / "docs/glossary.md"
ROW = re.compile(r"\| ([^|]+) \| ([^|]+) \| ([^|]+) \|")
HEADS = {"word", "---"}


def rows() -> list[tuple[str, str, list[str]]]:
    """Word, sentence and types of each row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    matches = [ROW.fullmatch(line) for line in lines if line.startswith("| ")]
    assert None not in matches
    return [
        (match[1], match[2], re.findall(r"`([^`]+)`", match[3]))
        for match in matches
        if match is not None and match[1] not in HEADS
    ]


def test_a_word_has_one_row_and_one_sentence() -> None:
    words = Counter(word for row in rows() for word in row[0].split(", "))
    assert len(words) > 100
    assert [word for word, count in words.items() if count > 1] == []
    assert [sentence for _, sentence, _ in rows() if not re.fullmatch(r"[A-Z].*\.", sentence)] == []


def test_types_of_the_glossary_are_there() -> None:
    types = [name for _, _, names in rows() for name in names]
    assert len(types) > 100
    assert [name for name in types if not exists(name)] == []
