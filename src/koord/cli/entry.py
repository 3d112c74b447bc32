# SPDX-License-Identifier: Apache-2.0
"""Where the console scripts begin: imports take a moment, and that can be interrupted.

What stands here imports nothing that the interpreter has not loaded for itself: until a program's
own handlers stand, SIGINT is Python's, which shows where it came.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # That of `typing`, which takes a while to import.
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """The script ``koord``."""
    _run("koord", lambda: _built("koord.cli.main", "koord"))


def descheduler() -> None:
    """The script ``koord-descheduler``."""
    _run("koord-descheduler", lambda: _imported("koord.cli.daemons.descheduler"))


def manager() -> None:
    """The script ``koord-manager``."""
    _run("koord-manager", lambda: _imported("koord.cli.daemons.manager"))


def runtime_proxy() -> None:
    """The script ``koord-runtime-proxy``."""
    _run("koord-runtime-proxy", lambda: _imported("koord.cli.daemons.runtime_proxy"))


def scheduler() -> None:
    """The script ``koord-scheduler``."""
    _run("koord-scheduler", lambda: _built("koord.cli.daemons.scheduler", "koord-scheduler"))


def webhook() -> None:
    """The script ``koord-webhook``."""
    _run("koord-webhook", lambda: _imported("koord.cli.daemons.webhook"))


def koordlet() -> None:
    """The script ``koordlet``."""
    _run("koordlet", lambda: _imported("koord.cli.daemons.koordlet"))


def _run(name: str, load: Callable[[], Callable[[], None]]) -> None:
    """Runs a program; a signal ends it from the first moment on.

    While it is imported a signal ends the process where it is. Nothing is begun yet that would have
    to be ended, and an error would not always get through: modules in C turn it into one of theirs,
    and where the import machinery tidies up Python shows it and goes on.

    Args:
        name: of the script.
        load: imports the program; what it gives runs it.
    """
    try:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end_at_once)
        from koord.cli.completion.protocol import COMPLETION_FLAG
        from koord.cli.process.signals import end_by_signals

        if sys.argv[1:] and sys.argv[1].startswith(COMPLETION_FLAG):
            from koord.cli.completion.complete import print_completions

            print_completions(name, sys.argv[1].removeprefix(COMPLETION_FLAG), sys.argv[2:])
        program = load()
        end_by_signals()
        program()
    except KeyboardInterrupt:
        sys.exit(130)


def _end_at_once(number: int, _: object) -> None:
    os._exit(128 + number)


def _imported(module: str) -> Callable[[], None]:
    from importlib import import_module

    program: Callable[[], None] = import_module(module).main
    return program


def _built(module: str, name: str) -> Callable[[], None]:
    """As :func:`_imported`; its verbs are modules of their own, imported here too."""
    from functools import partial
    from importlib import import_module

    from koord.cli.process.typer_program import run_app

    return partial(run_app, import_module(module).build(), name)


if __name__ == "__main__":
    main()
