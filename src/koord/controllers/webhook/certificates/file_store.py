# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates in files, replaced all at once: readers see the former or the new ones.

Each name is a link into ``..data``, itself a link to a folder named after the time, as kubelet lays
out volumes. Rule: docs/reference/admission.md#serving-and-certificates.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.controllers.webhook.certificates.certificate_store import (
    StoredMaterial,
    foreign_material,
    is_foreign,
)
from koord.controllers.webhook.certificates.key_material import KeyMaterial

if TYPE_CHECKING:
    from koord.base.clock import Clock

_DATA, _NEW = "..data", "..data_tmp"
_LARGEST_BYTES = 1024 * 1024
_NAMES = (*KeyMaterial(b"", b"", b"", b"").files(), "tls.crt", "tls.key", "ca.crt")


class FileStore:
    """A folder, which this process alone writes.

    Args:
        folder: made where it is missing, readable to its owner alone.
        clock: of the names of folders.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock

    async def read(self) -> StoredMaterial:
        """See ``certificate_store.CertificateStore``."""
        files = {name: content for name in _NAMES if (content := self._content(name))}
        version = sha256(b"".join(files.values())).hexdigest() if files else ""
        if is_foreign(files):
            return StoredMaterial(foreign_material(files), False, version)
        return StoredMaterial(KeyMaterial.of_files(files), True, version)

    async def write(self, material: KeyMaterial, former: StoredMaterial) -> bool:
        """See ``certificate_store.CertificateStore``."""
        if (await self.read()).version != former.version:
            return False
        files = {**material.files(), "tls.key": material.key, "tls.crt": material.certificate}
        try:
            self._replace(files)
        except OSError as error:
            raise KoordError.wrap(str(self._folder), "", error) from None
        return True

    def _content(self, name: str) -> bytes:
        path = self._folder / name
        try:
            with path.open("rb") as file:
                return file.read(_LARGEST_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise KoordError.wrap(str(path), "", error) from None

    def _replace(self, files: dict[str, bytes]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        former = self._target()
        fresh = self._folder / f"..{int(self._clock.wall_seconds() * 1e6)}"
        fresh.mkdir(mode=0o700)
        for name, content in files.items():
            _write(fresh / name, content)
        link = self._folder / _NEW
        link.unlink(missing_ok=True)
        link.symlink_to(fresh.name)
        link.replace(self._folder / _DATA)
        for name in files:
            self._link(name)
        if former is not None:
            shutil.rmtree(former, ignore_errors=True)

    def _link(self, name: str) -> None:
        """Has a name lead to the newest; a file of that name makes way."""
        path, wanted = self._folder / name, f"{_DATA}/{name}"
        if path.is_symlink() and os.readlink(path) == wanted:  # noqa: PTH115
            return
        part = self._folder / f"..{name}"
        part.unlink(missing_ok=True)
        part.symlink_to(wanted)
        part.replace(path)

    def _target(self) -> Path | None:
        """The folder that the link leads to, if it is one of ours."""
        try:
            name = os.readlink(self._folder / _DATA)  # noqa: PTH115
        except OSError:
            return None
        inside = name.startswith("..") and "/" not in name and name != ".."
        return self._folder / name if inside else None


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
