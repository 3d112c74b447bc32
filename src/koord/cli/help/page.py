# SPDX-License-Identifier: Apache-2.0
"""A page of help: what is on it, and how it is laid out.

The text of a page is a docstring. Its first paragraph is the purpose, on one line. Paragraphs that
begin with ``Example:`` are command lines; one that begins with ``Exit status:`` has an indented
line a status; one that begins with a line ``\\b`` keeps its lines as they are.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING, NamedTuple

from koord.cli.terminal.text_wrap import help_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_EXAMPLE, _STATUS, _AS_IS = "Example:", "Exit status:", "\b"
_VALUED = re.compile(r"(?<= )(--?[a-z0-9-]+) (?=[^-\[])")
# Names as wide as this have their text beside them, wider ones below.
_NAMES = 28
_INDENT = "  "


class HelpFlag(NamedTuple):
    """A flag.

    Attributes:
        names: with their dashes, a short one first.
        metavar: what its value is; empty where it takes none. ``A|B`` lists values, as does
            a lower-case word; ``,...`` says that several may be given, with commas between them.
        text: what it does, in a few words.
        default: as one would type it; empty for none that is worth a word.
        bare: whether it may stand without its value.
        required: whether it must be given.
    """

    names: tuple[str, ...]
    metavar: str = ""
    text: str = ""
    default: str = ""
    bare: bool = False
    required: bool = False


class Argument(NamedTuple):
    """A word that has its place instead of a name.

    Attributes:
        metavar: what it is, as :attr:`HelpFlag.metavar`.
        text: what it is for.
        required: whether it must be given.
        several: whether more may follow.
    """

    metavar: str
    text: str = ""
    required: bool = True
    several: bool = False


class HelpPage(NamedTuple):
    """A program, a group of verbs or a verb.

    Attributes:
        path: its name, behind those of the program and the group.
        text: see the module.
        arguments, flags: what it takes.
        verbs: name and purpose of each, for a group.
    """

    path: str
    text: str
    arguments: tuple[Argument, ...] = ()
    flags: tuple[HelpFlag, ...] = ()
    verbs: tuple[tuple[str, str], ...] = ()


HELP = HelpFlag(("-h", "--help"), text="show this help")
VERSION = HelpFlag(("--version",), text="print the version")


def purpose(page: HelpPage) -> str:
    """What it is for, in one line."""
    return " ".join(_paragraphs(page.text)[0].split())


def examples(page: HelpPage) -> list[str]:
    """Command lines."""
    return [
        " ".join(block.removeprefix(_EXAMPLE).split())
        for block in _paragraphs(page.text)
        if block.startswith(_EXAMPLE)
    ]


def rendered(page: HelpPage, width: int | None = None) -> str:
    """The page as text.

    Args:
        page: what is on it.
        width: columns; the terminal's if None.
    """
    columns = width or help_width()
    blocks: list[Iterator[str]] = [
        iter(wrapped(purpose(page), columns)),
        _hanging("Usage:", _usage(page), columns),
    ]
    rest = _paragraphs(page.text)[1:]
    blocks += [_paragraph(block, columns) for block in rest if not block.startswith(_EXAMPLE)
               and not block.startswith(_STATUS)]  # fmt: skip
    blocks.append(_rows("Verbs:", page.verbs, columns))
    told = [(each.metavar, each.text) for each in page.arguments if each.text]
    blocks.append(_rows("Arguments:", told, columns))
    blocks.append(_rows("Flags:", [_flag(each) for each in page.flags], columns))
    blocks += [_statuses(block, columns) for block in rest if block.startswith(_STATUS)]
    blocks.append(_commands(examples(page), columns))
    return "\n\n".join(text for text in ("\n".join(block) for block in blocks) if text)


def _paragraphs(text: str) -> list[str]:
    return [block.strip("\n") for block in cleandoc(text).split("\n\n") if block.strip("\n ")]


def _usage(page: HelpPage) -> str:
    if page.verbs:
        return f"{page.path} VERB [FLAG]..."
    flags = [f"{each.names[-1]} {each.metavar}" for each in page.flags if each.required]
    words = [page.path, "[FLAG]...", *flags]
    for each in page.arguments:
        word = f"{each.metavar}..." if each.several else each.metavar
        words.append(word if each.required else f"[{word}]")
    return _glued(" ".join(words))


def _glued(command: str) -> str:
    """A command line in which a flag and its value do not part."""
    return _VALUED.sub("\\1\u00a0", command)


def _hanging(head: str, text: str, width: int) -> Iterator[str]:
    """A head and text beside it, which keeps its distance from the left."""
    lines = wrapped(text, width - len(head) - 1)
    yield f"{head} {lines[0]}"
    yield from (f"{' ' * len(head)} {line}" for line in lines[1:])


def _paragraph(block: str, width: int) -> Iterator[str]:
    if block.startswith(_AS_IS):
        return iter(block.splitlines()[1:])
    return iter(wrapped(block, width))


def _rows(head: str, rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """A head, and below it a line a row: a name and beside it, or below, what it is."""
    if not rows:
        return
    yield head
    margin = min(max(len(name) for name, _ in rows), _NAMES) + 2 * len(_INDENT)
    for name, text in rows:
        lines = wrapped(text, width - margin)
        first = f"{_INDENT}{name}"
        if len(first) + len(_INDENT) > margin:
            yield first
        else:
            yield f"{first:<{margin}}{lines.pop(0)}".rstrip()
        yield from (f"{' ' * margin}{line}" for line in lines)


def _flag(flag: HelpFlag) -> tuple[str, str]:
    names = ", ".join(flag.names)
    if len(flag.names[0]) > 2:
        names = f"    {names}"
    if flag.metavar:
        names += f"[={flag.metavar}]" if flag.bare else f" {flag.metavar}"
    default = f"(default:\u00a0{flag.default})" if flag.default else ""
    return names, " ".join(filter(None, (flag.text, default, "(required)" * flag.required)))


def _statuses(block: str, width: int) -> Iterator[str]:
    """A row a status: lines that begin with a number begin one."""
    rows: list[tuple[str, str]] = []
    for line in block.removeprefix(_STATUS).splitlines():
        number, _, text = line.strip().partition(" ")
        if number.isdigit():
            rows.append((number, text.strip()))
        elif rows:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
    return _rows(_STATUS, rows, width)


def _commands(commands: list[str], width: int) -> Iterator[str]:
    """Command lines, which a shell takes as they stand: a long one goes on behind a backslash."""
    if not commands:
        return
    yield _EXAMPLE
    for command in commands:
        lines = wrapped(_glued(command), width - 6)
        for number, line in enumerate(lines):
            more = " \\" if number < len(lines) - 1 else ""
            yield f"{_INDENT if not number else _INDENT * 2}{line}{more}"
