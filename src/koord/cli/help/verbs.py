# SPDX-License-Identifier: Apache-2.0
"""Help of what is made with typer."""

from __future__ import annotations

from enum import Enum
from importlib.metadata import version
from inspect import isfunction
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from koord.cli.help.page import HELP, VERSION, Argument, Flag, Page, purpose, rendered
from koord.cli.values import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable

DURATION = "DURATION"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("koord"))
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


class Group(TyperGroup):
    """A group of them."""

    def get_help(self, ctx: Any) -> str:
        """The page, as text."""
        return rendered(page(self, ctx.command_path))


class App(typer.Typer):
    """An application whose commands have help in the style of all; it takes typer's settings."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=Group,
            add_completion=False,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": list(HELP.names)},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """A command, as typer's."""
        return super().command(name, cls=Verb, **settings)


def page(command: Any, path: str) -> Page:
    """The page of a command.

    Args:
        command: one of typer's, or a group of them.
        path: its name, behind those of the program and the group.
    """
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    return Page(
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


def _argument(each: Any) -> Argument:
    metavar = (each.metavar or each.name.upper()).strip("[].")
    return Argument(metavar, each.help or "", each.required, each.nargs != 1)


def _flag(each: Any) -> Flag:
    names = sorted((*each.opts, *each.secondary_opts), key=lambda name: name.startswith("--"))
    metavar = "" if each.is_flag else each.metavar or "TEXT"
    text, default = each.help or "", _default(each)
    if each.multiple:
        text += "; may be repeated"
    return Flag(tuple(names), metavar, text, default, required=each.required)


def _default(each: Any) -> str:
    """What is worth saying of a default, as one would type it."""
    if isinstance(each.show_default, str):
        return each.show_default
    value = each.default
    if value is None or isinstance(value, bool) or isfunction(value) or each.required:
        return ""
    if isinstance(value, Enum):
        return str(value.value)
    return duration_text(value) if each.metavar == DURATION else str(value)
