# SPDX-License-Identifier: Apache-2.0
"""runc, a static busybox and plugins of CNI from Debian, unpacked into a cache:
``python -m tests.node.packages``.

Nothing is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# With them what runc is linked against.
PACKAGES = ("runc", "busybox-static", "libseccomp2", "containernetworking-plugins")
_PLACES = {
    "runc": ("usr/sbin/runc", "usr/bin/runc"),
    "busybox": ("bin/busybox", "usr/bin/busybox"),
    "bridge": ("usr/lib/cni/bridge",),
}
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")


class MissingPackageError(Exception):
    """A program is not there; the message is one line that says what helps."""


def cache_folder() -> Path:
    """Of these packages, in ``KOORD_NODE_CACHE``, by default a folder of the user's cache."""
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("KOORD_NODE_CACHE") or Path(user) / "koord" / "node").absolute()
    return folder / hashlib.sha256(repr(PACKAGES).encode()).hexdigest()[:12]


def find(program: str) -> Path:
    """``runc``, ``busybox``, or ``bridge``, beside which all plugins of CNI lie.

    Raises:
        MissingPackageError: they were not fetched.
    """
    for place in _PLACES[program]:
        if (cache_folder() / place).is_file():
            return cache_folder() / place
    raise MissingPackageError(
        f"{program} is not there: run `make build-real`, or `python -m tests.node.packages`"
    )


def libraries() -> str:
    """Where a loader finds what runc needs, as ``LD_LIBRARY_PATH`` takes it."""
    return ":".join(str(cache_folder() / folder) for folder in _LIBRARIES)


def fetch() -> None:
    """Fetches the packages where one of them is missing.

    Raises:
        MissingPackageError: apt has none.
    """
    try:
        for program in _PLACES:
            find(program)
    except MissingPackageError:
        _fetch()


def _fetch() -> None:
    cache_folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder().parent, prefix=".fetching-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _call("apt-get", "download", *PACKAGES, where=Path(scratch))
        for package in sorted(Path(scratch).glob("*.deb")):
            _call("dpkg-deb", "-x", str(package), str(made), where=Path(scratch))
        shutil.rmtree(cache_folder(), ignore_errors=True)
        made.rename(cache_folder())


def _call(*call: str, where: Path) -> None:
    try:
        done = subprocess.run(call, cwd=where, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MissingPackageError(f"{call[0]}: {error.strerror}") from None
    if done.returncode:
        raise MissingPackageError(f"{' '.join(call)}: {done.stderr.strip()}")


def main() -> int:
    """Fetches them; 1 where that fails."""
    try:
        fetch()
    except MissingPackageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"runc, busybox, CNI: {cache_folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
