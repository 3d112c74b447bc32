# SPDX-License-Identifier: Apache-2.0
"""Puts the verbs together and turns errors into one line and an exit status.

Exit status: 0 done, 1 failed, 2 wrong usage or input.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated

import typer

from koord.base.errors import KoordError

# Each module holds one `app`.
_GROUPS = {
    "topology": "see a machine's CPUs and try the CPU picker",
    "quota": "work out elastic quotas",
    "resctrl": "plan cache and memory-bandwidth groups",
    "simulate": "replay traces through the scheduler's own kernels",
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

    @app.callback()
    def root(
        show_version: Annotated[
            bool, typer.Option("--version", help="print the version and stop")
        ] = False,
    ) -> None:
        if show_version:
            print(version("koord"))
            raise typer.Exit

    return app


def main() -> None:
    """The console script ``koord``."""
    try:
        _build()()
    except KoordError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        # The reader left, as `| head` does. Python would complain again while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
