# SPDX-License-Identifier: Apache-2.0
"""Puts the verbs together and turns errors into one line and an exit status.

Exit status: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer

from koord.cli.check import check
from koord.cli.programs import INTERRUPTED, USAGE, run_program, tell
from koord.cli.up import up
from koord.cli.up_detached import down, status

# Typer passes the class of all usage errors on, yet not its name.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

# Each module holds one `app`.
_GROUPS = {
    "topology": "see a machine's CPUs and try the CPU picker",
    "quota": "work out elastic quotas",
    "resctrl": "plan cache and memory-bandwidth groups",
    "simulate": "replay traces through the scheduler's own kernels",
    "explain": "say why a pod is where it is, and what would change that",
    "crds": "put koord's definitions into a cluster, and compare them",
    "node": "what the agent of this machine sees and does",
}


def _build() -> typer.Typer:
    app = typer.Typer(
        name="koord",
        help="QoS-aware co-location for Kubernetes: see, plan, replay and explain.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, text in _GROUPS.items():
        module = import_module(f"koord.cli.{name}")
        app.add_typer(module.app, name=name, help=text, no_args_is_help=True)
    app.command("check", short_help="find what is wrong with manifests before they are applied")(
        check
    )
    app.command("up", short_help="start a cluster in this process")(up)
    app.command("status", short_help="tell whether a cluster runs on a data folder")(status)
    app.command("down", short_help="end the cluster on a data folder")(down)

    @app.callback()
    def root(
        show_version: Annotated[
            bool,
            typer.Option(
                "--version", help="print the version and stop", is_eager=True, callback=_version
            ),
        ] = False,
    ) -> None:
        pass

    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(version("koord"))
        raise typer.Exit


def main() -> None:
    """The console script ``koord``."""
    run_app(_build(), "koord")


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


def _usage(error: Any) -> int:
    """Tells of wrong usage; nothing for a group without a verb: its help has been printed."""
    message: str = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if message:
        tell(f"{message} (see {context.command_path} --help)" if context else message)
    return USAGE
