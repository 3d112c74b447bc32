# SPDX-License-Identifier: Apache-2.0
"""``koord completion``."""

from __future__ import annotations

from typing import Annotated

import typer

from koord.base.errors import KoordError, nearest
from koord.cli.completion.protocol import PROGRAMS
from koord.cli.completion.scripts import SCRIPTS, script


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="which shell reads it")],
    programs: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROGRAM", help="for these; for all of them by default"),
    ] = None,
) -> None:
    """Print what a shell reads to complete the words of koord's programs.

    Verbs, flags and what koord knows are completed everywhere: components, controllers, feature
    gates, kinds, policies. Names of pods, nodes, quotas, gangs, reservations and namespaces are
    completed where a cluster answers within half a second; without one nothing is said.

    \b
    Into ~/.bashrc:                     source <(koord completion bash)
    Into ~/.zshrc, behind compinit:     source <(koord completion zsh)
    Into ~/.config/fish/config.fish:    koord completion fish | source

    Example: koord completion bash > /etc/bash_completion.d/koord
    """
    _known("SHELL", shell, tuple(SCRIPTS))
    for name in programs or ():
        _known("PROGRAM", name, PROGRAMS)
    print(script(shell, tuple(programs or PROGRAMS)), end="")


def _known(what: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        meant = nearest(word, list(known))
        hint = f"; did you mean {meant}?" if meant else ""
        raise KoordError(what, "", word, f"{', '.join(known[:-1])} or {known[-1]}{hint}")
