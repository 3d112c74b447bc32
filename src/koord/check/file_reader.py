# SPDX-License-Identifier: Apache-2.0
"""Files as objects with their places, bounded whatever is in them."""

from __future__ import annotations

import re
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koord.api.objects import list_items
from koord.base.documents import decode_text, parse_documents
from koord.base.errors import Code, KoordError
from koord.check.field_location import branches
from koord.check.problem import FileProblem, Severity
from koord.check.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.check.source_tree import SourceNode

STANDARD_INPUT = "-"
MOST_BYTES = 4 << 20
MOST_OBJECTS = 10_000
_LINE = re.compile(r"line (\d{1,9})")


@dataclass
class FileContents:
    """What a file holds.

    Attributes:
        subjects: its objects, lists unfolded.
        problems: why it, or a part of it, cannot be read.
    """

    subjects: list[Subject] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)


def read_bytes(name: str) -> bytes:
    """The bytes of a file, or of standard input.

    Raises:
        KoordError: there is none, it cannot be read, or it is too large.
    """
    if not name:
        raise KoordError("FILE", "", name, "the name of a file")
    try:
        if name == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            mode = Path(name).stat().st_mode
            if stat.S_ISDIR(mode):
                expected = "a file, such as those of DIRECTORY/*.yaml"
                raise KoordError("FILE", "", Path(name), expected)
            with Path(name).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
    except OSError as error:
        expected = f"a file that can be read ({error.strerror or error})"
        raise KoordError("FILE", "", Path(name), expected, Code.UNREADABLE) from None
    except ValueError:  # a name with a null in it
        raise KoordError("FILE", "", name, "the name of a file", Code.UNREADABLE) from None
    if len(data) > MOST_BYTES:
        expected = f"at most {MOST_BYTES:,} bytes"
        raise KoordError(name, "", "a larger file", expected)
    return data


def contents(data: bytes, file: str) -> FileContents:
    """The objects in the bytes of a file; what is wrong with them as YAML or JSON is a problem."""
    found = FileContents()
    try:
        text = decode_text(data, file)
        documents = parse_documents(text, file)
    except KoordError as error:
        line = _LINE.fullmatch(error.field)
        # What is missing at the end is told of a line behind it.
        at = min(int(line[1]), data.rstrip().count(b"\n") + 1) - 1 if line else 0
        found.problems.append(_about(file, at, error.value, error.expected))
        return found
    places = branches(text)
    for whole, branch in zip(documents, places, strict=True):
        found.problems += _repeated(whole, branch, file)
        for subject in _subjects(whole, branch, file):
            if len(found.subjects) == MOST_OBJECTS:
                expected = f"at most {MOST_OBJECTS:,} objects in a file"
                found.problems.append(_about(file, branch.line, "more objects", expected))
                return found
            document: Any = subject.document
            if isinstance(document, dict):
                found.subjects.append(subject)
            else:
                expected = "a mapping with apiVersion and kind"
                at = subject.locate("").line - 1
                found.problems.append(_about(file, at, document, expected))
    if not documents:
        found.problems.append(_about(file, 0, None, "at least one object", Severity.WARNING))
    return found


def _subjects(document: Any, branch: SourceNode, file: str) -> Iterator[Subject]:
    """The document itself, or the items of a list."""
    items = list_items(document) if isinstance(document, dict) else None
    if items is None:
        yield Subject(file, document, branch, document)
        return
    for index, item in enumerate(items):
        yield Subject(file, item, branch, document, ("items", index))


def _repeated(document: Any, branch: SourceNode, file: str) -> Iterator[FileProblem]:
    """Keys that stand twice in one mapping: parsers take the last one without a word."""
    title = Subject(file, document, branch, document).title if isinstance(document, dict) else ""
    seen = set()
    left = [branch]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        for key, line in each.repeated.items():
            expected = "every key once in a mapping; the last one counts"
            yield FileProblem(file, line + 1, title, "", key, expected, Severity.ERROR)
        left += each.members.values()
        left += each.items


def _about(
    file: str, line: int, value: object, expected: str, severity: Severity = Severity.ERROR
) -> FileProblem:
    """A problem of no object; lines are counted from 0."""
    return FileProblem(file, line + 1, "", "", value, expected, severity)
