# SPDX-License-Identifier: Apache-2.0
"""QEMU, a kernel, busybox and mke2fs from Debian's packages, unpacked into a cache.

Nothing is installed: apt resolves the packages against an empty machine, with its state in the
cache, and dpkg-deb unpacks them there. Programs run with the C library of their own packages, so
that the machine's may be another.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# cloud: the generic kernel hangs under emulation.
PACKAGES = ("qemu-system-x86", "linux-image-cloud-amd64", "busybox-static", "e2fsprogs")
_LIBRARIES = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")


class MissingVmError(Exception):
    """The guest cannot be had here; the message is one line that says what helps."""


def cache_folder() -> Path:
    """``KOORD_VM_CACHE``, by default a folder of the user's cache."""
    named = os.environ.get("KOORD_VM_CACHE")
    if named:
        return Path(named).absolute()
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user) / "koord" / "vm"


@dataclass(frozen=True)
class Programs:
    """The unpacked packages.

    Attributes:
        root: what a machine's root directory would be.
    """

    root: Path

    @property
    def kernel(self) -> Path:
        """The compressed kernel."""
        return next((self.root / "boot").glob("vmlinuz-*"))

    @property
    def modules(self) -> Path:
        """The folder ``kernel`` of that kernel's modules."""
        return next((self.root / "lib/modules").iterdir()) / "kernel"

    @property
    def busybox(self) -> Path:
        """A static busybox."""
        return self.root / "bin/busybox"

    def command(self, program: str) -> list[str]:
        """How to start a program of the packages, e.g. ``sbin/mke2fs``."""
        libraries = ":".join(str(self.root / folder) for folder in _LIBRARIES)
        loader = self.root / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
        return [str(loader), "--library-path", libraries, str(self.root / program)]

    def environment(self) -> dict[str, str]:
        """What QEMU needs to find its own plug-ins."""
        folder = self.root / "usr/lib/x86_64-linux-gnu/qemu"
        return {**os.environ, "QEMU_MODULE_DIR": str(folder)}


def _folder() -> Path:
    digest = hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]
    return cache_folder() / f"debian-{digest}"


def find() -> Programs:
    """The unpacked packages; raises `MissingVmError` where `fetch` was not run."""
    if not (_folder() / "complete").is_file():
        raise MissingVmError(
            "QEMU and a kernel are not there: run `make test-vm`, or `python -m tests.vm.build`"
        )
    return Programs(_folder() / "root")


def fetch() -> Programs:
    """The unpacked packages, downloaded where they are missing.

    Raises:
        MissingVmError: no apt here, or it could not download.
    """
    try:
        return find()
    except MissingVmError:
        pass
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise MissingVmError(f"no {tool} here: the guest is made of Debian's packages")
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as scratch:
        archives = _download(Path(scratch))
        made = Path(scratch) / "made"
        (made / "root").mkdir(parents=True)
        for archive in archives:
            _call(["dpkg-deb", "-x", str(archive), str(made / "root")])
        (made / "complete").write_text("\n".join(a.name for a in archives) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    return find()


def _download(scratch: Path) -> list[Path]:
    for name in ("state/lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "status").touch()
    options = {
        "Dir::State": str(scratch / "state"),
        "Dir::State::status": str(scratch / "status"),
        "Dir::Cache": str(scratch / "cache"),
        "Debug::NoLocking": "1",
        # apt's own user cannot write in a folder of ours.
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "0",
        "Acquire::Retries": "3",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    # A source that is of no use here may be down: what counts is whether the packages come.
    _call([*apt, "update"], check=False)
    _call([*apt, "install", "-y", "--download-only", *PACKAGES])
    return sorted((scratch / "cache/archives").glob("*.deb"))


def _call(command: list[str], check: bool = True) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if check and done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no word why"]
        raise MissingVmError(f"{Path(command[0]).name}: {lines[-1]}")
