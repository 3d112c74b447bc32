# SPDX-License-Identifier: Apache-2.0
"""Where the console scripts begin: imports take a moment, and that can be interrupted."""

from __future__ import annotations

import sys
from importlib import import_module

from koord.cli.completion import ASKED
from koord.cli.endings import end_by_signals


def main() -> None:
    """The script ``koord``."""
    _run("koord.cli.main", "koord")


def manager() -> None:
    """The script ``koord-manager``."""
    _run("koord.cli.manager", "koord-manager")


def scheduler() -> None:
    """The script ``koord-scheduler``."""
    _run("koord.cli.scheduler", "koord-scheduler")


def koordlet() -> None:
    """The script ``koordlet``."""
    _run("koord.cli.koordlet", "koordlet")


def _run(module: str, name: str) -> None:
    """Runs a module's ``main``; a signal ends it from the first moment on."""
    end_by_signals()
    try:
        if sys.argv[1:] and sys.argv[1].startswith(ASKED):
            from koord.cli.completion.answer import answer

            answer(name, sys.argv[1].removeprefix(ASKED), sys.argv[2:])
        import_module(module).main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
