# SPDX-License-Identifier: Apache-2.0
"""Pods and containers on disk, for the proxy's next start: a file a sandbox.

A file is a line with format and checksum, then a message; it is written beside and renamed. It is
not synced: when the machine goes down, so do the sandboxes. One that cannot be read is removed and
told of, for no pod is held up by it, and the runtime is asked what it knows.
Rule: docs/reference/delivery.md#pods-and-containers.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from koord.agent.host.private_files import make_folder, read_file, write_new
from koord.base import faults, log
from koord.base.errors import one_line
from koord.delivery.hooks.messages import HOOKS
from koord.delivery.proto import types_of

if TYPE_CHECKING:
    import os

    from koord.base.metrics import MetricRegistry
    from koord.delivery.cri.pod_store import PodStore

AGAIN_SECONDS = 10.0
"""How soon what could not be written is tried again, where nothing changes meanwhile."""

MOST_FILES = 4096
MOST_FILE_BYTES = 64 << 20
_MAGIC = b"koord-runtime-proxy 1 "
_SUFFIX = ".pod"
_SANDBOX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_TYPES: Any = types_of(
    "stored_pod.proto",
    "package koord.runtimeproxy;\n"
    "message StoredPod {\n  bytes pod = 1;\n  repeated bytes containers = 2;\n}\n",
)
_LOG = log.get("runtime-proxy.store")


class StoreFiles:
    """One directory's.

    Args:
        directory: made where it is not there, for root alone.
        store: whose pods they are; tells of changes from now on.
        metrics: counts failures.

    Attributes:
        error: why the last write failed; empty while they succeed.
    """

    def __init__(
        self, directory: str | os.PathLike[str], store: PodStore, metrics: MetricRegistry
    ) -> None:
        self.directory = Path(directory)
        self.error = ""
        self._store = store
        self._changed: dict[str, None] = {}
        self._waiting = asyncio.Event()
        self._thread: asyncio.Future[dict[str, str]] | None = None
        self._count = metrics.counter(
            "koord_runtime_proxy_store_failures_total", "Pods that could not be kept on disk."
        )
        store.changed = self._change

    def _change(self, sandbox: str) -> None:
        self._changed[sandbox] = None
        self._waiting.set()

    def load(self) -> None:
        """Puts what is on disk into the store."""
        for path in self._paths()[:MOST_FILES]:
            try:
                stored = read_pod(path)
            except (OSError, ValueError, DecodeError) as error:
                where = log.fields(file=str(path), error=one_line(str(error)))
                _LOG.warning("cannot be read and is removed", extra=where)
                with suppress(OSError):
                    path.unlink()
                continue
            sandbox = path.name.removesuffix(_SUFFIX)
            self._store.add_pod(sandbox, HOOKS.PodSandboxHookRequest.FromString(stored.pod))
            for each in stored.containers:
                container = HOOKS.ContainerResourceHookRequest.FromString(each)
                self._store.add_container(sandbox, container.container_meta.id, container)
        self._changed.clear()

    def _paths(self) -> list[Path]:
        try:
            # A run that was killed may have left one that was not whole yet.
            for left in self.directory.glob(f"*{_SUFFIX}.new"):
                left.unlink()
            return sorted(self.directory.glob(f"*{_SUFFIX}"))
        except OSError:
            return []

    async def run(self) -> None:
        """Writes what changes, beside the loop, until cancelled."""
        while True:
            # What could not be written is tried again with what changes next, and by itself.
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_SECONDS if self._changed else None):
                    await self._waiting.wait()
            await self.write()

    async def write(self) -> None:
        """Writes what has changed by now."""
        self._waiting.clear()
        changed, self._changed = self._changed, {}
        rows = [(sandbox, self._content(sandbox)) for sandbox in changed]
        # A thread is not cancelled with who waits for it: there is one at a time.
        if self._thread is not None:
            await self._thread
        self._thread = asyncio.ensure_future(asyncio.to_thread(self._write_all, rows))
        failures = await asyncio.shield(self._thread)
        self._changed = dict.fromkeys(failures) | self._changed
        self._count.inc(len(failures))
        error = next(iter(failures.values()), "")
        if error and error != self.error:
            where = log.fields(directory=str(self.directory), error=error)
            _LOG.warning("pods are not kept on disk", extra=where)
        if self.error and not error:
            _LOG.info("pods are kept on disk again")
        self.error = error

    def _content(self, sandbox: str) -> bytes | None:
        pod = self._store.pod(sandbox)
        if pod is None:
            return None
        containers = [each.SerializeToString() for each in pod.containers.values()]
        made = _TYPES.StoredPod(pod=pod.request.SerializeToString(), containers=containers)
        body: bytes = made.SerializeToString()
        return _MAGIC + b"%08x\n" % zlib.crc32(body) + body

    def _write_all(self, rows: list[tuple[str, bytes | None]]) -> dict[str, str]:
        """Writes each; gives the reasons of those that it could not."""
        failures = {}
        for sandbox, content in rows:
            try:
                self._write_one(sandbox, content)
            except OSError as error:
                failures[sandbox] = one_line(error.strerror or str(error))
        return failures

    def _write_one(self, sandbox: str, content: bytes | None) -> None:
        if not _SANDBOX.fullmatch(sandbox):
            return
        path = self.directory / f"{sandbox}{_SUFFIX}"
        if content is None:
            path.unlink(missing_ok=True)
            return
        faults.point("cri.store.write")
        beside = path.with_name(f"{path.name}.new")
        try:
            make_folder(self.directory)
            with write_new(beside) as file:
                file.write(content)
            beside.replace(path)
        except OSError:
            # What is there is of before, and would be taken for what is now.
            for left in (beside, path):
                with suppress(OSError):
                    left.unlink()
            raise


def read_pod(path: Path) -> Any:
    """Reads a file: the request of a pod and those of its containers, as bytes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none, or damaged.
        DecodeError: so it is.
    """
    head, _, body = read_file(path, MOST_FILE_BYTES).partition(b"\n")
    if not head.startswith(_MAGIC):
        raise ValueError("expected a pod of koord-runtime-proxy, format 1")
    if head.removeprefix(_MAGIC) != b"%08x" % zlib.crc32(body):
        raise ValueError("expected the checksum of what follows")
    return _TYPES.StoredPod.FromString(body)
