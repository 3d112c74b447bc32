# SPDX-License-Identifier: Apache-2.0
"""Images built by buildah: no daemon, no registry, storage in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
BASE = "localhost/base"
Document = dict[str, Any]


class EngineError(Exception):
    """A tool is not here, or refused; what it said last."""


def call(*command: object, **options: Any) -> str:
    """Runs a program; gives what it prints.

    Raises:
        EngineError: it is not here, or ended with another status than 0.
    """
    words = [str(each) for each in command]
    if shutil.which(words[0]) is None:
        raise EngineError(f"no {words[0]} here; on Debian: apt-get install {words[0]}")
    done: subprocess.CompletedProcess[str] = subprocess.run(
        words, capture_output=True, text=True, check=False, **options
    )
    if done.returncode:
        raise EngineError(f"{' '.join(words[:6])}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def debian_root(archive: Path, epoch: int) -> None:
    """A base as an archive: Debian 12 of the packages that every Debian has."""
    call(
        *("mmdebstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", archive),
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
    )


@dataclass(frozen=True)
class Engine:
    """buildah with a storage, which a ``with`` takes away whatever happens in it.

    Attributes:
        folder: where the storage lies.
        driver: ``overlay``, or ``vfs`` where that cannot be mounted.
    """

    folder: Path
    driver: str = "overlay"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for command in (("rm", "-a"), ("rmi", "-a", "-f")):
            self._buildah(*command)
        call("rm", "-rf", self.folder)

    def import_base(self, archive: Path) -> None:
        """Makes an archive of a root the image that others are built from."""
        text = f"FROM scratch\nADD {archive.name} /\n"
        file = self.folder / "base.Dockerfile"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        self._buildah("bud", "--isolation", "chroot", "-t", BASE, "-f", file, archive.parent)

    def build(self, target: str, epoch: int, arguments: dict[str, str]) -> str:
        """Builds a target of the Dockerfile; its name.

        Args:
            epoch: seconds; of every file in the image, and of the image.
        """
        name = f"localhost/{target}"
        given = [word for pair in arguments.items() for word in ("--build-arg", "=".join(pair))]
        self._buildah(
            *("bud", "--isolation", "chroot", "--layers", "--pull-never", "--timestamp", epoch),
            *(*self._trust(), *given, "--build-arg", f"BASE={BASE}"),
            *("-f", DOCKERFILE, "--target", target, "-t", name, ROOT),
        )
        return name

    def configuration(self, name: str) -> Document:
        """An image's own: digests of its layers, labels, environment."""
        described = json.loads(self._buildah("inspect", "--type", "image", name))
        found: Document = described["OCIv1"]
        return found

    def unpack(self, name: str, target: Path) -> None:
        """Copies what is in an image into a new folder."""
        container = self._buildah("from", "--pull-never", name).strip()
        mounted = self._buildah("mount", container).strip()
        target.parent.mkdir(parents=True, exist_ok=True)
        call("cp", "-a", mounted, target)
        self._buildah("rm", container)

    def export(self, name: str, archive: Path) -> None:
        """Writes an image as an OCI archive."""
        self._buildah("push", "--quiet", name, f"oci-archive:{archive}")

    def _buildah(self, *arguments: object) -> str:
        storage = ("--root", self.folder / "storage", "--runroot", self.folder / "run")
        return call("buildah", *storage, "--storage-driver", self.driver, *arguments)

    def _trust(self) -> list[object]:
        """What pip needs inside, where this machine reaches PyPI in a way of its own."""
        keys = ("cert", "index-url", "proxy")
        found = {key: _pip_setting(key) for key in keys}
        certificates = found["cert"]
        mounts: list[object] = []
        if certificates:
            mounts += ["-v", f"{certificates}:/run/pip.crt:ro"]
            found["cert"] = "/run/pip.crt"
        lines = [f"{key} = {value}\n" for key, value in found.items() if value]
        file = self.folder / "pip.conf"
        file.write_text("[global]\nroot-user-action = ignore\n" + "".join(lines), encoding="utf-8")
        return [*mounts, "-v", f"{file}:/etc/pip.conf:ro"]


def _pip_setting(key: str) -> str:
    words = [sys.executable, "-m", "pip", "config", "get"]
    for section in (":env:", "global"):
        done = subprocess.run(
            [*words, f"{section}.{key}"], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return done.stdout.strip()
    return ""
