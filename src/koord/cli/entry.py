# SPDX-License-Identifier: Apache-2.0
"""Where the console scripts begin: imports take a moment, and that can be interrupted."""

from __future__ import annotations

import sys
from importlib import import_module

from koord.cli.endings import end_by_signals


def main() -> None:
    """The script ``koord``."""
    _run("koord.cli.main")


def manager() -> None:
    """The script ``koord-manager``."""
    _run("koord.cli.manager")


def scheduler() -> None:
    """The script ``koord-scheduler``."""
    _run("koord.cli.scheduler")


def koordlet() -> None:
    """The script ``koordlet``."""
    _run("koord.cli.koordlet")


def _run(module: str) -> None:
    """Runs a module's ``main``; a signal ends it from the first moment on."""
    end_by_signals()
    try:
        import_module(module).main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
