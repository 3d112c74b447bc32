# SPDX-License-Identifier: Apache-2.0
"""Where the console scripts begin: imports take a moment, and that can be interrupted."""

from __future__ import annotations

import sys
from importlib import import_module

from koord.cli.completion.protocol import COMPLETION_FLAG
from koord.cli.process.signals import end_by_signals


def main() -> None:
    """The script ``koord``."""
    _run("koord.cli.main", "koord")


def descheduler() -> None:
    """The script ``koord-descheduler``."""
    _run("koord.cli.daemons.descheduler", "koord-descheduler")


def manager() -> None:
    """The script ``koord-manager``."""
    _run("koord.cli.daemons.manager", "koord-manager")


def scheduler() -> None:
    """The script ``koord-scheduler``."""
    _run("koord.cli.daemons.scheduler", "koord-scheduler")


def webhook() -> None:
    """The script ``koord-webhook``."""
    _run("koord.cli.daemons.webhook", "koord-webhook")


def koordlet() -> None:
    """The script ``koordlet``."""
    _run("koord.cli.daemons.koordlet", "koordlet")


def _run(module: str, name: str) -> None:
    """Runs a module's ``main``; a signal ends it from the first moment on."""
    end_by_signals()
    try:
        if sys.argv[1:] and sys.argv[1].startswith(COMPLETION_FLAG):
            from koord.cli.completion.complete import print_completions

            print_completions(name, sys.argv[1].removeprefix(COMPLETION_FLAG), sys.argv[2:])
        import_module(module).main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
