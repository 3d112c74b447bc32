# SPDX-License-Identifier: Apache-2.0
"""How every program of koord ends: an exit status, and one line where something went wrong.

Exit status: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

from koord.base.errors import KoordError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.metrics import MetricRegistry
    from koord.kube.dry_run import DryRun

FAILED, USAGE, INTERRUPTED = 1, 2, 130
_ANY_ADDRESS = ("0.0.0.0", "::")


def run_program(work: Callable[[], int]) -> None:
    """Runs a program and exits; whatever goes wrong is one line on standard error.

    Args:
        work: gives the exit status.
    """
    try:
        status = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader left, as `| head` does.
        _silence_stdout()
        status = FAILED
    except Exception as error:
        if os.environ.get("KOORD_DEBUG"):
            raise
        status = _report(error)
    sys.exit(status or 0)


def print_error(line: str) -> None:
    """One line on standard error."""
    print(f"error: {one_line(line)}", file=sys.stderr)


def _report(error: Exception) -> int:
    """Prints what went wrong as one line and gives the exit status."""
    if isinstance(error, KoordError):
        status, line = error.exit_status, str(error)
    elif isinstance(error, ConnectionError) and not isinstance(error, BrokenPipeError):
        # No answer from an API server; the message says from which.
        status, line = FAILED, str(error)
    elif isinstance(error, OSError) and error.filename is None:
        # What verbs read and write by name they report themselves; this is standard output.
        _silence_stdout()
        status, line = FAILED, f"standard output: {error.strerror}"
    else:
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        status, line = FAILED, f"internal: {told} (a bug of koord; KOORD_DEBUG=1 shows where)"
    if line:
        print_error(line)
    return status


def _silence_stdout() -> None:
    # Python would complain again while closing it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reachable(url: str) -> str:
    """Where others find what listens at a URL: every address is this pod's, or this machine's."""
    scheme, _, place = url.partition("://")
    host, _, port = place.rpartition(":")
    if host.strip("[]") not in _ANY_ADDRESS:
        return url
    mine = os.environ.get("POD_IP") or socket.gethostname()
    return f"{scheme}://{f'[{mine}]' if ':' in mine else mine}:{port}"


def begin_dry_run(wanted: bool, registry: MetricRegistry) -> DryRun | None:
    """What takes a daemon's writes with ``--dry-run``, which is told of; None without.

    Args:
        wanted: the flag.
        registry: of the daemon, where writes are counted.
    """
    if not wanted:
        return None
    from koord.base import log
    from koord.kube.dry_run import DryRun

    text = "dry run: nothing is written, neither to the cluster nor to this machine"
    log.get("dryrun").warning(text)
    return DryRun(registry)
