# SPDX-License-Identifier: Apache-2.0
"""Which hook servers there are: the files of one directory, looked at again before each use.

So a file counts from the next call on, and nothing waits for an event or a timer.
Rule: docs/reference/delivery.md#hook-servers.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from koord.base import log
from koord.base.errors import one_line
from koord.delivery.hooks.messages import CONTAINER_STAGES, POD_STAGES

MOST_FILES = 16
"""Files that are read, the first by name; more are told of."""
MOST_FILE_BYTES = 64 << 10
MOST_ENDPOINT_BYTES = 107
"""The longest path of a socket."""

# Stages that a file may list and that nobody can be asked at: the service has no call for them.
_NEVER_CALLED = ("PreRemoveRunPodSandbox",)
_LOG = log.get("runtime-proxy.hook-servers")


class FailurePolicy(StrEnum):
    """What becomes of a call whose hook server fails."""

    FAIL = "Fail"
    IGNORE = "Ignore"
    NONE = ""


class HookServer(NamedTuple):
    """One hook server, as its file says.

    Attributes:
        name: of the file.
        endpoint: path of its socket.
        policy: what its failure means.
        stages: at which it is called.
        version: another one when the file was written again, as a server does that starts.
    """

    name: str
    endpoint: str
    policy: FailurePolicy
    stages: frozenset[str]
    version: int = 0


class _HookServerFile(msgspec.Struct):
    endpoint: str = msgspec.field(name="remote-endpoint", default="")
    policy: str = msgspec.field(name="failure-policy", default="")
    stages: list[str] = msgspec.field(name="runtime-hooks", default_factory=list)


class HookServers:
    """The directory's.

    Args:
        directory: need not be there.

    Attributes:
        errors: what is wrong with a file, by its name; of such a file what it said before counts.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self.errors: dict[str, str] = {}
        self._servers: dict[str, HookServer] = {}
        self._versions: dict[str, tuple[int, ...]] = {}

    def make_directory(self) -> None:
        """Makes the directory where there is none, for hook servers to put their files in."""
        try:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            reason = one_line(str(error))
            _LOG.warning("no directory of hook servers", extra=log.fields(reason=reason))

    def all(self) -> list[HookServer]:
        """Those there are now, in the order of their files' names."""
        names = self._names()
        for name in [name for name in self._versions if name not in names]:
            del self._versions[name]
            self.errors.pop(name, None)
            if self._servers.pop(name, None) is not None:
                _LOG.info("hook server is gone", extra=log.fields(file=name))
        for name in names:
            self._look_at(name)
        return [self._servers[name] for name in names if name in self._servers]

    def of_stage(self, stage: str) -> HookServer | None:
        """The first that is to be called at a stage; no more than one is."""
        return next((server for server in self.all() if stage in server.stages), None)

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.directory) as entries:
                names = sorted(entry.name for entry in entries if entry.name.endswith("json"))
        except OSError:
            return []
        self._note("", f"more than {MOST_FILES} files" if len(names) > MOST_FILES else "")
        return names[:MOST_FILES]

    def _look_at(self, name: str) -> None:
        path = self.directory / name
        try:
            status = path.stat()
            version = (status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode)
            if self._versions.get(name) == version:
                return
            self._versions[name] = version
            server = read_server(path, status)
        except (OSError, ValueError) as error:
            self._note(name, one_line(getattr(error, "strerror", None) or str(error)))
            return
        self._note(name, "")
        if server != self._servers.get(name):
            self._servers[name] = server
            stages = ",".join(sorted(server.stages)) or "none"
            where = log.fields(file=name, endpoint=server.endpoint, stages=stages)
            _LOG.info("hook server", extra=where)

    def _note(self, name: str, error: str) -> None:
        if not error:
            self.errors.pop(name, None)
        elif self.errors.get(name) != error:
            self.errors[name] = error
            where = log.fields(file=str(self.directory / name), error=error)
            _LOG.warning("not a hook server's file", extra=where)


def read_server(path: Path, status: os.stat_result) -> HookServer:
    """Reads a file; keys that are not known are left out.

    Raises:
        OSError: it cannot be read.
        ValueError: field, value and what would be right.
    """
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_FILE_BYTES:
        raise ValueError(f"expected a file of at most {MOST_FILE_BYTES} bytes")
    with path.open("rb") as file:
        read = msgspec.json.decode(file.read(MOST_FILE_BYTES), type=_HookServerFile)
    if read.policy not in set(FailurePolicy):
        raise ValueError(f"failure-policy: got {read.policy[:80]!r}, expected Fail or Ignore")
    known = {*POD_STAGES, *CONTAINER_STAGES, *_NEVER_CALLED}
    if unknown := [stage for stage in read.stages if stage not in known]:
        raise ValueError(f"runtime-hooks: got {unknown[0][:80]!r}, expected a stage")
    endpoint = read.endpoint.removeprefix("unix://")
    if not endpoint.startswith("/") or len(endpoint.encode()) > MOST_ENDPOINT_BYTES:
        raise ValueError(
            f"remote-endpoint: got {endpoint[:80]!r}, expected the path of a socket, "
            f"at most {MOST_ENDPOINT_BYTES} bytes"
        )
    stages = frozenset(read.stages) - set(_NEVER_CALLED)
    return HookServer(path.name, endpoint, FailurePolicy(read.policy), stages, status.st_mtime_ns)
