# SPDX-License-Identifier: Apache-2.0
"""``unshare --mount python -m tests.delivery.full_disk_scene FOLDER``: a disk of 64 KiB that fills
up under the files of koordlet and of the proxy, and has room again. Prints what was seen as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from koord.agent.executor.audit import AuditLog, AuditSubject
from koord.agent.executor.journal import Journal
from koord.agent.executor.target import Target
from koord.agent.prediction.checkpoints import Checkpoints
from koord.agent.prediction.usage_models import NODE, PredictionOptions, UsageModels
from koord.base.clock import SystemClock
from koord.delivery.cri import store_files
from koord.delivery.cri.messages import CRI
from koord.delivery.hooks.registration import NAME, Registration
from koord.delivery.hooks.server import AgentHookServer, ServerOptions
from tests.delivery.cri.world import World, create_request, world
from tests.delivery.hooks.test_service import ServiceSetting

_SIZE = "64k"
_QUICK_SECONDS, _PATIENCE_SECONDS = 0.05, 60.0


class Disk:
    """A file system so small that a file fills it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
        subprocess.run(command, check=True)
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """To the last byte."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass

    def free(self) -> None:
        """Has room again."""
        self._ballast.unlink()

    def files(self) -> dict[str, int]:
        """Sizes of all files but what fills it."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        sizes = {str(p.relative_to(self.folder)): p.stat().st_size for p in found}
        return {name: size for name, size in sizes.items() if name != self._ballast.name}


async def _until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not check():
            await asyncio.sleep(_QUICK_SECONDS)


async def _left(disk: Disk) -> list[str]:
    """Files that stay: what is tried again has one for a moment each time."""
    left = set(disk.files())
    for _ in range(100):
        if not left:
            break
        await asyncio.sleep(_QUICK_SECONDS)
        left &= disk.files().keys()
    return sorted(left)


def error_of(work: Callable[[], object]) -> str:
    """How it fails."""
    try:
        work()
    except OSError as error:
        return str(error.strerror)
    return ""


# -- the proxy -----------------------------------------------------------------------------------


def proxy_store(folder: Path) -> dict[str, Any]:
    """Containers are made while nothing can be kept; all is kept, by itself, when there is room."""
    store_files.AGAIN_SECONDS = _QUICK_SECONDS
    disk = Disk(folder / "disk")

    async def run() -> dict[str, Any]:
        async with world(folder, state_dir=str(disk.folder / "pods")) as here:
            running = asyncio.ensure_future(here.proxy.run())
            await _until(lambda: not here.proxy.status()["error"])
            disk.fill()
            made = [await _create(here, number) for number in range(3)]
            await _until(lambda: here.proxy.status()["storeError"])
            told, left = here.proxy.status()["storeError"], await _left(disk)
            disk.free()
            await _until(lambda: not here.proxy.status()["storeError"])
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return {"made": made, "told": told, "left": left, "kept": sorted(disk.files())}

    return asyncio.run(run())


async def _create(here: World, number: int) -> str:
    container = f"c{number}"
    here.runtime.answers["CreateContainer"] = CRI.CreateContainerResponse(container_id=container)
    asked = create_request(f"s{number}")
    return str(
        (await here.call("CreateContainer", asked, CRI.CreateContainerResponse)).container_id
    )


# -- koordlet ------------------------------------------------------------------------------------


def journal(folder: Path) -> dict[str, Any]:
    """What is on disk stays as it was."""
    disk = Disk(folder / "disk")
    first, second = Target("cpu.shares", "a"), Target("cpu.shares", "b" * 8000)
    kept = Journal(disk.folder / "state", "boot")
    kept.add([(first, 1)])
    kept.commit()
    disk.fill()
    kept.add([(second, 2)])
    told, left = error_of(kept.commit), disk.files()
    found = len(Journal(disk.folder / "state", "boot").targets())
    disk.free()
    kept.commit()
    again = len(Journal(disk.folder / "state", "boot").targets())
    return {"told": told, "left": sorted(left), "found": found, "again": again}


def checkpoints(folder: Path) -> dict[str, Any]:
    """A checkpoint that finds no room leaves nothing, and is written the next time."""
    disk = Disk(folder / "disk")
    models, now_ms = UsageModels(PredictionOptions()), 10**12
    model = models.by_name[NODE] = models.new()
    model.updated_ms = now_ms
    files = Checkpoints(disk.folder / "checkpoints")
    (disk.folder / "checkpoints").mkdir()
    disk.fill()
    told, left = error_of(lambda: files.step(models, now_ms)), disk.files()
    disk.free()
    return {"told": told, "left": sorted(left), "written": files.step(models, now_ms)}


def audit(folder: Path) -> dict[str, Any]:
    """Events are lost and counted; those after them can be read, with those before."""
    disk = Disk(folder / "disk")
    log = AuditLog(disk.folder / "audit", SystemClock())

    def record(name: str, times: int = 1) -> None:
        for _ in range(times):
            log.record(1, AuditSubject("node", "", name, ""), "Written", "x" * 300)
        log.flush()

    record("before")
    (disk.folder / "room").write_bytes(b"\0" * 8192)
    disk.fill()
    (disk.folder / "room").unlink()
    record("lost", 60)
    lost = log.dropped
    disk.free()
    record("after")
    names = [str(event["name"]) for event in log.events()]
    texts = [path.read_bytes() for path in (disk.folder / "audit").iterdir()]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    return {"lost": lost, "names": names, "lines": len(lines)}


def hook_server(folder: Path) -> dict[str, Any]:
    """It says that its file for the proxy cannot be written, and serves once it can."""
    disk = Disk(folder / "disk")
    registration = Registration(disk.folder, str(folder / "sock"), "Ignore", ())
    service = ServiceSetting(folder / "node").service
    options = ServerOptions(folder / "sock", registration, _QUICK_SECONDS)
    server = AgentHookServer(options, service._services)

    async def run() -> dict[str, Any]:
        disk.fill()
        running = asyncio.ensure_future(server.run())
        await _until(lambda: server.error)
        told, left = server.status()["error"], disk.files()
        disk.free()
        await _until(lambda: server.status()["serving"])
        written = (disk.folder / NAME).read_text() == registration.text
        error = server.status()["error"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return {"told": told, "left": sorted(left), "written": written, "error": error}

    return asyncio.run(run())


SCENES = (proxy_store, journal, checkpoints, audit, hook_server)


def main(folder: Path) -> None:
    """Plays all."""
    seen = {}
    for scene in SCENES:
        place = folder / scene.__name__
        place.mkdir()
        seen[scene.__name__] = scene(place)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
