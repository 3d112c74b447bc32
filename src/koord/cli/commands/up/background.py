# SPDX-License-Identifier: Apache-2.0
"""``koord up -d``, ``koord status``, ``koord down``: a cluster without a terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from koord.base.errors import KoordError
from koord.cli.commands.up import process_record
from koord.cli.terminal.output import Format, OutputOption, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_DATA = Path("~/.koord")
# The grace period of its end, and a little.
_END_SECONDS = 35.0
_ANSWER_SECONDS = 2.0
_LOOK_SECONDS = 0.2

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="of the cluster", show_default=str(DEFAULT_DATA)),
]


def folder_of(data: Path | None) -> Path:
    """The data folder that is meant."""
    return data if data is not None else DEFAULT_DATA.expanduser()


def start(words: Sequence[str], data: Path) -> dict[str, Any]:
    """Starts ``koord up`` as a process of its own, and waits until its cluster is up.

    Args:
        words: of the command line, without those of this module.
        data: the folder; what the process logs goes there too.

    Returns:
        What it says when it is up.

    Raises:
        KoordError: a cluster runs there already, or it did not come up, with its own reason.
    """
    if (record := process_record.read(data)) is not None:
        raise KoordError(str(data), "", f"a cluster that runs (pid {record.pid})", "none")
    path = data / process_record.LOG
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Appended to, so that whoever empties it meanwhile leaves no hole.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
    except OSError as error:
        raise KoordError.wrap(str(path), "", error) from None
    command = [sys.executable, "-m", "koord.cli.entry", "up", "-o", "json", "--data", str(data)]
    process = subprocess.Popen(
        [*command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
        start_new_session=True, text=True,
    )  # fmt: skip
    os.close(file)
    assert process.stdout is not None
    try:
        with process.stdout as stream:
            _show_steps(stream, path)
            line = stream.readline()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if not line:
        process.wait()
        message = path.read_text(errors="replace").splitlines() or [f"see {path}"]
        raise _NotUpError(message[-1].removeprefix("error: "), process.returncode)
    found: dict[str, Any] = json.loads(line)
    return found


def _show_steps(stream: IO[str], log: Path) -> None:
    """Passes on what is being started, until the process says that it is up, or is gone."""
    with log.open(errors="replace") as message:
        while True:
            ready, _, _ = select.select([stream], [], [], _LOOK_SECONDS)
            for line in message:
                if line.startswith("starting: "):
                    print(line, end="", file=sys.stderr, flush=True)
            if ready:
                return


class _NotUpError(KoordError):
    """The cluster's own words why it is not up."""

    def __init__(self, message: str, status: int) -> None:
        self._message = message
        super().__init__("koord up", "", message, "a cluster that is up")
        self.exit_status = status if status in (1, 2) else 1

    def _line(self) -> str:
        return self._message


def status(data: DataOption = None, output: OutputOption = Format.TEXT) -> None:
    """Tell whether a cluster runs on a data folder, and how to reach it.

    Exit status:
      0  one runs and answers
      1  none runs, or it does not answer

    Example: koord status --data ~/.koord
    """
    folder = folder_of(data)
    record = process_record.read(folder)
    if record is None:
        state = "none"
    elif not record.line:
        state = "starting"
    else:
        state = "up" if _answers(str(record.line["url"])) else "does not answer"
    if output is Format.JSON:
        told = {"data": str(folder), "state": state}
        print_json({**told, **({"pid": record.pid, **record.line} if record else {})})
    elif record is None:
        print(f"no cluster runs on {folder}")
    else:
        print(f"{state}: pid {record.pid}, data {folder}")
        for name in ("url", "kubeconfig", "context", "nodes"):
            if name in record.line:
                print(f"  {name:<10}  {record.line[name]}")
    if state != "up":
        raise typer.Exit(1)


def down(data: DataOption = None) -> None:
    """End the cluster that runs on a data folder.

    What it keeps there stays. Only the process that holds the folder is ended, with SIGTERM, and
    waited for. Where none runs there is nothing to do.

    Exit status:
      0  none runs any more
      1  it did not end within 35 s

    Example: koord down --data ~/.koord
    """
    folder = folder_of(data)
    record = process_record.read(folder)
    if record is None:
        print(f"no cluster runs on {folder}")
        return
    with suppress(ProcessLookupError):  # it has ended by itself meanwhile
        _end(record)
    print(f"ended the cluster on {folder}")


def _end(record: process_record.ProcessRecord) -> None:
    """Ends the process of a record, and waits for that.

    Raises:
        ProcessLookupError: it is gone; who has its number now is somebody else.
        KoordError: it does not end.
    """
    descriptor = os.pidfd_open(record.pid)
    try:
        # From here on the number is this process's; before, it may have become another's.
        if process_record.started(record.pid) != record.started:
            raise ProcessLookupError(record.pid)
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        ended, _, _ = select.select([descriptor], [], [], _END_SECONDS)
    finally:
        os.close(descriptor)
    if not ended:
        raise KoordError(f"process {record.pid}", "", "still there", "an end within 35 s")


def _answers(url: str) -> bool:
    """Whether the API server says that it is well."""
    import ssl
    from urllib.request import urlopen

    # Whom it is does not matter here, and nothing is told it.
    context = ssl._create_unverified_context() if url.startswith("https:") else None
    try:
        with urlopen(f"{url}/readyz", timeout=_ANSWER_SECONDS, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
