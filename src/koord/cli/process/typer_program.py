# SPDX-License-Identifier: Apache-2.0
"""How programs made with typer end: as all of koord's, and wrong usage is one line too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from koord.base.errors import KoordError
from koord.cli.options.go_flags import unknown_flag
from koord.cli.process.program import INTERRUPTED, USAGE, print_error, run_program

if TYPE_CHECKING:
    from collections.abc import Sequence

# Typer passes the class of all usage errors on, yet not its name.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run_app(app: typer.Typer, name: str) -> None:
    """Runs a program made with typer and exits; what goes wrong is one line on standard error."""

    def work() -> int:
        try:
            return app(prog_name=name, standalone_mode=False) or 0
        except typer.Abort:
            return INTERRUPTED
        except _UsageError as error:
            return _usage(error)

    run_program(work)


def check_arguments(app: typer.Typer, name: str, arguments: Sequence[str]) -> None:
    """Reads the arguments of a program without running it.

    Raises:
        KoordError: a flag, its value and what would be right.
    """
    command: Any = typer.main.get_command(app)
    try:
        command.make_context(name, list(arguments))
    except _UsageError as error:
        text: str = getattr(error, "format_message", error.__str__)()
        raise KoordError("", "", text.rstrip("."), f"flags of {name} --help") from None


def _usage(error: Any) -> int:
    """Tells of wrong usage; a group without a verb shows its help."""
    message: str = error.format_message().rstrip(".")
    context: Any = getattr(error, "ctx", None)
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        print(context.get_help())
        return USAGE
    if kind == "NoSuchOption":
        known = [name for each in context.command.params for name in each.opts]
        print_error(str(unknown_flag(context.command_path, error.option_name, known)))
        return USAGE
    if message:
        print_error(f"{message} (see {context.command_path} --help)" if context else message)
    return USAGE
