# SPDX-License-Identifier: Apache-2.0
"""Help of what is made with typer."""

from __future__ import annotations

from enum import Enum
from inspect import isfunction
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from koord.base.distributions import koord_version
from koord.cli.help.page import HELP, VERSION, Argument, HelpFlag, HelpPage, purpose, rendered
from koord.cli.options.values import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable

DURATION = "DURATION"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(koord_version())
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", help=VERSION.text, is_eager=True, callback=_print_version),
]


class Verb(TyperCommand):
    """A command whose help is in the style of all."""

    def get_help(self, ctx: Any) -> str:
        """The page, as text."""
        return rendered(page(self, ctx.command_path))


class VerbGroup(TyperGroup):
    """A group of them."""

    def get_help(self, ctx: Any) -> str:
        """The page, as text."""
        return rendered(page(self, ctx.command_path))


class TyperApp(typer.Typer):
    """An application whose commands have help in the style of all; it takes typer's settings."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=VerbGroup,
            add_completion=False,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": list(HELP.names)},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """A command, as typer's."""
        settings.setdefault("cls", Verb)
        return super().command(name, **settings)


def page(command: Any, path: str) -> HelpPage:
    """The page of a command.

    Args:
        command: one of typer's, or a group of them.
        path: its name, behind those of the program and the group.
    """
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    return HelpPage(
        path,
        command.help or "",
        tuple(_argument(each) for each in shown if each.param_type_name == "argument"),
        (*(_flag(each) for each in shown if each.param_type_name == "option"), HELP),
        tuple((name, purpose(page(verb, name))) for name, verb in verbs(command).items()),
    )


def verbs(command: Any) -> dict[str, Any]:
    """The commands of a group by name; none of a command."""
    found = getattr(command, "commands", {})
    return {name: verb for name, verb in found.items() if not verb.hidden}


def _argument(parameter: Any) -> Argument:
    metavar = (parameter.metavar or parameter.name.upper()).strip("[].")
    return Argument(metavar, parameter.help or "", parameter.required, parameter.nargs != 1)


def _flag(parameter: Any) -> HelpFlag:
    names = sorted(
        (*parameter.opts, *parameter.secondary_opts), key=lambda name: name.startswith("--")
    )
    metavar = "" if parameter.is_flag else parameter.metavar or "TEXT"
    text, default = parameter.help or "", _default(parameter)
    if parameter.multiple:
        text += "; may be repeated"
    return HelpFlag(tuple(names), metavar, text, default, required=parameter.required)


def _default(parameter: Any) -> str:
    """What is worth saying of a default, as one would type it."""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.default
    if value is None or isinstance(value, bool) or isfunction(value) or parameter.required:
        return ""
    if isinstance(value, Enum):
        return str(value.value)
    return duration_text(value) if parameter.metavar == DURATION else str(value)
