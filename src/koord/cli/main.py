# SPDX-License-Identifier: Apache-2.0
"""Puts the verbs together and turns errors into one line and an exit status.

Exit status: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer

from koord.base.errors import KoordError, one_line
from koord.cli.up import up

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
    app.command("up", short_help="start a cluster in this process")(up)

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
    """Runs a program and exits; whatever goes wrong is one line on standard error."""
    try:
        status = app(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except BrokenPipeError:
        # The reader left, as `| head` does.
        _silence_stdout()
        status = 1
    except Exception as error:
        if os.environ.get("KOORD_DEBUG"):
            raise
        status = _report(error)
    sys.exit(status or 0)


def _report(error: Exception) -> int:
    """Prints what went wrong as one line and gives the exit status."""
    if isinstance(error, KoordError):
        status, line = error.exit_status, str(error)
    elif isinstance(error, _UsageError):
        status, line = 2, _usage(error)
    elif isinstance(error, ConnectionError) and not isinstance(error, BrokenPipeError):
        # No answer from an API server; the message says from which.
        status, line = 1, str(error)
    elif isinstance(error, OSError) and error.filename is None:
        # What verbs read and write by name they report themselves; this is standard output.
        _silence_stdout()
        status, line = 1, f"standard output: {error.strerror}"
    else:
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        status, line = 1, f"internal: {told} (a bug of koord; KOORD_DEBUG=1 shows where)"
    if line:
        print(f"error: {one_line(line)}", file=sys.stderr)
    return status


def _usage(error: Any) -> str:
    """Empty for a group without a verb: its help has been printed."""
    message: str = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if message and context else message


def _silence_stdout() -> None:
    # Python would complain again while closing it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
