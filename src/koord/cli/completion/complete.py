# SPDX-License-Identifier: Apache-2.0
"""What a program prints for the shell that completes a word."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from koord.cli.completion.protocol import FILES_STATUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.cli.completion.command_line import Completion

# Shells know no more of a word than this of what it is for.
_LONGEST = 100


def print_completions(program: str, shell: str, words: Sequence[str]) -> NoReturn:
    """Prints what the last word of the command line may become, and ends the process.

    Nothing that goes wrong is told: it would be printed into the line that is being typed.

    Args:
        program: its name.
        shell: what asks.
        words: see :func:`answered`.
    """
    try:
        lines = answered(program, shell, words)
        status = FILES_STATUS if lines is None else 0
        print("\n".join(lines or ()), flush=True)
    except BaseException:
        status = 1
    # What still waits for a cluster is not waited for.
    os._exit(status)


def answered(program: str, shell: str, words: Sequence[str]) -> list[str] | None:
    """The lines for a shell; None where it is to complete names of files.

    Args:
        program: its name.
        shell: ``bash``, ``zsh`` or ``fish``.
        words: behind the program's name, the last one to be completed.
    """
    from koord.cli.completion import command_tree
    from koord.cli.completion.command_line import candidates
    from koord.cli.completion.option_values import values

    joined, cut = _joined(words) if shell == "bash" else (list(words), 0)
    found = candidates(command_tree.program(program), joined or [""], values)
    if found is None:
        return None
    return [_line(each, shell, cut) for each in found]


def _joined(words: Sequence[str]) -> tuple[list[str], int]:
    """The words as they were typed: bash parts them at ``=``.

    Returns:
        The words, and how much of the last one bash does not want to hear of.
    """
    joined: list[str] = []
    goes_on = False
    for word in words:
        if (word == "=" or goes_on) and joined:
            joined[-1] += word
        else:
            joined.append(word)
        goes_on = word == "="
    last = joined[-1] if joined else ""
    return joined, last.rfind("=") + 1


def _line(completion: Completion, shell: str, cut: int) -> str:
    if shell == "bash":
        return completion.word[cut:]
    text = " ".join(completion.text.split())
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if shell == "fish":
        return f"{completion.word}\t{text}" if text else completion.word
    # zsh takes what is behind a colon for the text.
    word = completion.word.replace("\\", "\\\\").replace(":", "\\:")
    return f"{word}:{text}" if text else word
