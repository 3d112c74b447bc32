# SPDX-License-Identifier: Apache-2.0
"""What each program takes: its page of help, and those of its verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.cli.help.page import HelpPage


class CommandNode(NamedTuple):
    """A program, a group of verbs or a verb.

    Attributes:
        page: what it takes.
        verbs: of a group, by name.
        one_dash: whether one dash before a long name does, as in Go programs.
    """

    page: HelpPage
    verbs: dict[str, CommandNode]
    one_dash: bool = False


def program(name: str) -> CommandNode:
    """The program of that name. KeyError for an unknown one."""
    return _PROGRAMS[name]()


def _koord() -> CommandNode:
    from typer.main import get_command

    from koord.cli.main import build

    return _made_with_typer(get_command(build()), "koord")


def _scheduler() -> CommandNode:
    from typer.main import get_command

    from koord.cli.daemons import scheduler

    return _made_with_typer(get_command(scheduler.build()), scheduler.NAME)


def _manager() -> CommandNode:
    from koord.cli.daemons import manager

    return CommandNode(manager.page(), {}, one_dash=True)


def _webhook() -> CommandNode:
    from koord.cli.daemons import webhook

    return CommandNode(webhook.page(), {}, one_dash=True)


def _descheduler() -> CommandNode:
    from koord.cli.daemons import descheduler

    return CommandNode(descheduler.page(), {}, one_dash=True)


def _koordlet() -> CommandNode:
    from koord.cli.daemons import koordlet

    return CommandNode(koordlet.page(), {}, one_dash=True)


def _runtime_proxy() -> CommandNode:
    from koord.cli.daemons import runtime_proxy

    return CommandNode(runtime_proxy.page(), {}, one_dash=True)


def _made_with_typer(command: Any, path: str) -> CommandNode:
    from koord.cli.help.typer_help import page, verbs

    below = {
        name: _made_with_typer(verb, f"{path} {name}") for name, verb in verbs(command).items()
    }
    return CommandNode(page(command, path), below)


_PROGRAMS: dict[str, Callable[[], CommandNode]] = {
    "koord": _koord,
    "koord-scheduler": _scheduler,
    "koord-manager": _manager,
    "koord-webhook": _webhook,
    "koord-descheduler": _descheduler,
    "koordlet": _koordlet,
    "koord-runtime-proxy": _runtime_proxy,
}
