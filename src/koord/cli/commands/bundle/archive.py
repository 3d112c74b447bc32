# SPDX-License-Identifier: Apache-2.0
"""The archive: files in their order, bounded, and the same bytes for the same content."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any, Final

from koord.base.errors import Code, KoordError, one_line
from koord.cli.commands.bundle.scrubbing import scrubbed, scrubbed_document

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES: Final = 8 << 20
"""Above that a file is cut."""
_RESERVED_BYTES: Final = 1 << 20
"""Kept free for the list of contents."""
_MOST_PROBLEMS: Final = 1000


class Bundle:
    """What goes into an archive.

    Args:
        limit_bytes: of all files together, before they are packed.

    Attributes:
        problems: what could not be had or is not whole, a line each.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._left = limit_bytes - _RESERVED_BYTES
        self._files: dict[str, bytes] = {}
        self.problems: list[str] = []

    @property
    def names(self) -> list[str]:
        """The files, in the order in which they came."""
        return list(self._files)

    def document(self, name: str, document: Any) -> None:
        """Adds a document as JSON, its keys in order; one that is too long is left out."""
        text = json.dumps(scrubbed_document(document), indent=1, sort_keys=True, default=str)
        data = text.encode() + b"\n"
        if len(data) > FILE_BYTES:
            self.note_problem(name, f"{len(data) >> 20} MiB, more than {FILE_BYTES >> 20}")
            return
        self._add(name, data)

    def text(self, name: str, text: str, keep_end: bool = True) -> None:
        """Adds lines; of too many the last, or the first.

        Args:
            name: of the file.
            text: its lines.
            keep_end: whether the last lines are those that count.
        """
        # What is cut away need not be read; the rest is, whole lines of it alone.
        if len(text) > FILE_BYTES:
            self.note_problem(name, f"cut to {'the last' if keep_end else 'the first'} lines")
            text = _cut(text, keep_end)
        self._add(name, scrubbed(text).encode())

    def note_problem(self, name: str, why: str) -> None:
        """Notes that something is not there, or not whole."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(one_line(scrubbed(f"{name}: {why}")))

    def _add(self, name: str, data: bytes) -> None:
        if len(data) > self._left:
            self.note_problem(name, "left out: the bundle is as large as --max-size allows")
            return
        self._left -= len(data)
        self._files[name] = data

    def write(self, path: Path, folder: str) -> int:
        """Writes the archive; how many bytes it has.

        Args:
            path: where; replaced if it is there.
            folder: that all files lie in.

        Raises:
            KoordError: it cannot be written.
        """
        lines = [*self._files, "", "not had, or not whole:", *(self.problems or ["nothing"])]
        whole = {"contents.txt": "\n".join([*lines, ""]).encode(), **self._files}
        packed = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name, data in whole.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mode = len(data), 0o600
                archive.addfile(entry, io.BytesIO(data))
        try:
            # For nobody else's eyes, whatever it holds.
            path.touch(mode=0o600)
            path.write_bytes(packed.getvalue())
        except OSError as error:
            expected = f"a file that can be written ({error.strerror or error})"
            raise KoordError("--file", "", path, expected, Code.UNREADABLE) from None
        return len(packed.getvalue())


def _cut(text: str, keep_end: bool) -> str:
    if keep_end:
        return text[-FILE_BYTES:].partition("\n")[2]
    return text[:FILE_BYTES].rpartition("\n")[0] + "\n"
