# SPDX-License-Identifier: Apache-2.0
"""Where in a command line a word stands, and what it may become."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.cli.help.page import purpose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.cli.completion.command_tree import CommandNode
    from koord.cli.help.page import HelpFlag

_LIST = ",..."


class Completion(NamedTuple):
    """A word, and what it is for."""

    word: str
    text: str = ""


class WordContext(NamedTuple):
    """Where a value stands.

    Attributes:
        metavar: what the value is.
        word: what there is of it.
        program: the program's name.
        given: values of the flags before it, by their last name.
    """

    metavar: str
    word: str
    program: str
    given: dict[str, str]


def candidates(
    command: CommandNode,
    words: Sequence[str],
    values: Callable[[WordContext], list[Completion] | None],
) -> list[Completion] | None:
    """What the last word may become.

    Args:
        command: the program.
        words: behind the program's name; the last is the one to complete, often empty.
        values: what a value may be; None for the name of a file.

    Returns:
        The words that begin with what there is, or None where it is the name of a file.
    """
    line = _CommandLine(command)
    for word in words[:-1]:
        line.take(word)
    return line.complete(words[-1] if words else "", values)


class _CommandLine:
    """The words so far."""

    def __init__(self, command: CommandNode) -> None:
        self._program = command.page.path
        self._command = command
        self._pending: HelpFlag | None = None
        self._given: dict[str, str] = {}
        self._arguments = 0
        self._only_arguments = False

    def take(self, word: str) -> None:
        """A word before the one to complete."""
        if self._pending is not None:
            self._given[self._pending.names[-1]] = word
            self._pending = None
        elif self._only_arguments or not word.startswith("-") or word == "-":
            self._take_argument(word)
        elif word == "--":
            self._only_arguments = True
        else:
            self._take_flag(word)

    def complete(
        self, word: str, values: Callable[[WordContext], list[Completion] | None]
    ) -> list[Completion] | None:
        """What a word may become."""
        if self._pending is not None:
            return self._values(self._pending.metavar, word, values)
        if word.startswith("-") and not self._only_arguments:
            return self._flags(word, values)
        if self._command.verbs:
            pages = {name: verb.page for name, verb in self._command.verbs.items()}
            completions = [Completion(name, purpose(page)) for name, page in pages.items()]
            return _beginning(completions, word)
        known = self._command.page.arguments
        if not known or (self._arguments >= len(known) and not known[-1].several):
            return []
        return self._values(known[min(self._arguments, len(known) - 1)].metavar, word, values)

    def _take_argument(self, word: str) -> None:
        if word in self._command.verbs:
            self._command = self._command.verbs[word]
        else:
            self._arguments += 1

    def _take_flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        flag = self._flag(name)
        if flag is None and not word.startswith("--") and len(word) > 2:
            # A short one with its value behind it.
            flag, equals, value = self._flag(word[:2]), "=", word[2:]
        if flag is None:
            return
        if equals:
            self._given[flag.names[-1]] = value
        elif flag.metavar and not flag.bare:
            self._pending = flag
        else:
            self._given[flag.names[-1]] = ""

    def _flag(self, name: str) -> HelpFlag | None:
        names = (name, f"-{name}") if self._command.one_dash else (name,)
        flags = self._command.page.flags
        return next((flag for flag in flags if set(names) & set(flag.names)), None)

    def _flags(
        self, word: str, values: Callable[[WordContext], list[Completion] | None]
    ) -> list[Completion] | None:
        name, equals, value = word.partition("=")
        flag = self._flag(name)
        if equals:
            long = name.startswith("--") or self._command.one_dash
            if flag is None or not flag.metavar or not long:
                return []
            completions = self._values("true|false" if flag.bare else flag.metavar, value, values)
            return completions and [
                Completion(f"{name}={each.word}", each.text) for each in completions
            ]
        listed = [Completion(each, flag.text) for flag in self._command.page.flags
                  for each in flag.names if flag.names[-1] not in self._given]  # fmt: skip
        return _beginning(listed, word)

    def _values(
        self, metavar: str, word: str, values: Callable[[WordContext], list[Completion] | None]
    ) -> list[Completion] | None:
        head = ""
        if metavar.endswith(_LIST):
            metavar = metavar.removesuffix(_LIST)
            before, comma, word = word.rpartition(",")
            head = before + comma
        if "|" in metavar or metavar.islower():
            completions: list[Completion] | None = [Completion(each) for each in metavar.split("|")]
        else:
            completions = values(WordContext(metavar, word, self._program, self._given))
        if completions is None:
            return None
        taken = set(head.split(","))
        left = [each for each in _beginning(completions, word) if each.word not in taken]
        return [Completion(head + each.word, each.text) for each in left]


def _beginning(completions: list[Completion], word: str) -> list[Completion]:
    return [each for each in completions if each.word.startswith(word)]
