# SPDX-License-Identifier: Apache-2.0
"""``koord node``: what the agent of this machine sees and does, and putting the machine back."""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koord.base.errors import KoordError, MissingExtraError
from koord.cli.commands.node import status_text
from koord.cli.help.typer_help import DURATION, TyperApp
from koord.cli.options.values import duration_text, seconds
from koord.cli.terminal.output import (
    Format,
    OutputOption,
    print_json,
    print_table,
    refuse_beside,
    refuse_without,
    show,
)

if TYPE_CHECKING:
    from koord.agent.host.machine import Machine
    from koord.agent.host.roots import HostRoots

app = TyperApp()

SERVER = "http://127.0.0.1:9316"
_ANSWER_SECONDS = 3.0
_EVERY_SECONDS = 2.0

RootOption = Annotated[
    str, typer.Option("--root", metavar="DIR", help="a tree of files that stands in for /")
]


@app.command()
def status(
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="where koordlet listens", show_default=SERVER),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="look at the machine itself, agent or not")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="again and again")] = False,
    every: Annotated[
        float | None,
        typer.Option(
            "--every",
            metavar=DURATION,
            parser=seconds("--every"),
            help="how often, with --watch",
            show_default=duration_text(_EVERY_SECONDS),
        ),
    ] = None,
    root: RootOption = "",
    output: OutputOption = Format.TEXT,
) -> None:
    """Tell what the agent on this machine sees, decides and last wrote.

    Without an agent that answers, the machine is looked at directly: its CPUs, what its kernel
    offers, who uses it. Nothing is written.

    Example: koord node status --watch
    """
    if watch and output is Format.JSON:
        raise KoordError("--watch", "", "with -o json", "one of the two")
    # What could not be measured is in the answer.
    logging.getLogger("koord").addHandler(logging.NullHandler())
    if not watch:
        refuse_without("--watch", {"--every": None if every is None else duration_text(every)})
    if alone or root:
        refuse_beside("--alone" if alone else "--root", {"--server": server})
    look = _StatusReader(server, alone or bool(root), root)
    if not watch:
        found = look()
        if output is Format.JSON:
            print_json(found)
        else:
            show(status_text.page(found))
        return
    _live(look, _EVERY_SECONDS if every is None else every)


@app.command()
def restore(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not only tell, do it")] = False,
    root: RootOption = "",
    state: Annotated[
        str, typer.Option("--state-dir", metavar="DIR", help="where koordlet keeps its journal")
    ] = "",
    output: OutputOption = Format.TEXT,
) -> None:
    """Give every file that koordlet wrote what it said before.

    The agent must not be running: it would write again. Without --yes nothing is written and
    what would be is listed.

    Exit status:
      0  all is back, or there is nothing to put back
      1  a file could not be written

    Example: koord node restore --yes
    """
    from koord.agent.executor.machine_restore import restorable, restore_machine

    machine = _machine(root, state)
    found = restore_machine(machine) if yes else restorable(machine)
    if output is Format.JSON:
        print_json([deed._asdict() for deed in found])
    elif not found:
        print("nothing to put back")
    else:
        rows = [[deed.file, deed.value, deed.outcome] for deed in found]
        print_table(["FILE", "VALUE", "OUTCOME"], rows)
    if yes and any(deed.failed for deed in found):
        raise typer.Exit(1)


class _NoAnswerError(KoordError):
    exit_status = 1


class _StatusReader:
    """Asks the agent, or looks at the machine where there is none."""

    def __init__(self, server: str | None, alone: bool, root: str) -> None:
        self._server, self._alone, self._root = server, alone, root
        self._self: Any = None

    def __call__(self) -> dict[str, Any]:
        if not self._alone:
            found = _agent_status(self._server)
            if found is not None:
                return found
        if self._self is None:
            self._self = _standalone(self._root)
        document: dict[str, Any] = self._self()
        return document


def _agent_status(named: str | None) -> dict[str, Any] | None:
    """The agent's own status; None where nobody listens at the usual place.

    Raises:
        KoordError: nobody does at the place that was named, or it is another program.
    """
    import http.client
    import urllib.error
    import urllib.request

    from koord.api import codec

    url = f"{(SERVER if named is None else named).rstrip('/')}/status"
    if not re.fullmatch(r"https?://[^/\s]+/status", url):
        raise KoordError("--server", "", named, "http://HOST:PORT")
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
            body: bytes = answer.read()
    except urllib.error.HTTPError as error:
        raise KoordError(url, "status", error.code, "200: an agent that has started") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        if named is None:
            return None
        reason = getattr(error, "reason", None) or error
        why = getattr(reason, "strerror", None) or reason
        raise _NoAnswerError("--server", "", named, f"a koordlet that answers ({why})") from None
    found = codec.parse_json(body, url)
    if not isinstance(found, dict) or not isinstance(found.get("machine"), dict):
        raise KoordError(url, "", "the status of another program", "that of a koordlet")
    return found


def _standalone(root: str) -> Any:
    try:
        from koord.agent.standalone import StandaloneProbe
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "agent") from None
    return StandaloneProbe(_machine(root, ""), time.sleep)


def _machine(root: str, state: str) -> Machine:
    from dataclasses import replace

    from koord.agent.host.machine import find

    roots = _roots(root)
    if state and not Path(state).is_dir():
        raise KoordError("--state-dir", "", Path(state), "the directory that koordlet had, if any")
    return find(replace(roots, state=state) if state else roots)


def _roots(root: str) -> HostRoots:
    from koord.agent.host.roots import HostRoots

    if root and not (Path(root) / "proc").is_dir():
        expected = "a directory that holds a machine's files: proc, sys and so on"
        raise KoordError("--root", "", Path(root), expected)
    top = os.path.abspath(root).rstrip("/") if root else ""  # noqa: PTH100
    return HostRoots().beneath(top)


def _live(look: _StatusReader, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    try:
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                live.update(status_text.page(look()), refresh=True)
                time.sleep(max(every, 0.1))
    except KeyboardInterrupt:
        return
