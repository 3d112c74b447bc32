# SPDX-License-Identifier: Apache-2.0
"""What files said before koord wrote them, on disk before the first write.

One file in the agent's state directory: a line with format, checksum and boot, then a JSON list.
It is replaced whole: written beside, synced, renamed, and the directory synced. Entries of another
boot are void, as the kernel forgot what was written then.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from koord.agent.executor.target import OUTLIVES_REBOOT, Target, Value, check_directory
from koord.agent.host.private_files import (
    make_folder,
    read_file,
    whole_or_gone,
    write_new,
)
from koord.base import faults
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView

NAME = "executor.journal"
MOST_BYTES = 256 << 20
_MAGIC = "koord-executor-journal"
_FORMAT = 1


class Journal:
    """The original values of targets.

    Args:
        directory: where the file lies; made where it is not there.
        boot: identity of this boot of the machine.

    Attributes:
        generation: another number whenever an original came or went.

    Raises:
        KoordError: the file is damaged, of another format, or cannot be read. It names the file
            to remove.
    """

    def __init__(self, directory: str | os.PathLike[str], boot: str) -> None:
        self.path = Path(directory) / NAME
        self._boot = boot
        self._originals: dict[Target, Value] = {}
        self._changed = False
        self.generation = 0
        if os.path.lexists(self.path):
            self._load()

    def __contains__(self, target: Target) -> bool:
        return target in self._originals

    def original(self, target: Target) -> Value | None:
        """What the target said before koord came; None where that was never written down."""
        return self._originals.get(target)

    def targets(self) -> list[Target]:
        """Everything that is to be given back some day, sorted."""
        return sorted(self._originals)

    def kept(self) -> KeysView[Target]:
        """The same, in no order."""
        return self._originals.keys()

    def add(self, originals: Iterable[tuple[Target, Value]]) -> None:
        """Takes originals up; the first one of a target stays. On disk after :meth:`commit`."""
        for target, value in originals:
            if target not in self._originals:
                self._originals[target] = value
                self._changed = True
                self.generation += 1

    def replace(self, target: Target, value: Value) -> None:
        """Another original for a target that has one. On disk after :meth:`commit`."""
        if self._originals.get(target, value) != value:
            self._originals[target] = value
            self._changed = True
            self.generation += 1

    def drop(self, targets: Iterable[Target]) -> None:
        """Forgets what was given back or is gone. On disk after :meth:`commit`."""
        for target in targets:
            if self._originals.pop(target, None) is not None:
                self._changed = True
                self.generation += 1

    def commit(self) -> None:
        """Puts on disk what was taken up and dropped; nothing where nothing was.

        Raises:
            OSError: the file on disk is as it was before.
        """
        if not self._changed:
            return
        faults.point("executor.journal.write")
        make_folder(self.path.parent)
        beside = self.path.with_name(f"{NAME}.new")
        with whole_or_gone(beside), write_new(beside) as file:
            file.write(self._text())
            file.flush()
            faults.point("executor.journal.sync")
            os.fsync(file.fileno())
        faults.point("executor.journal.rename")
        beside.replace(self.path)
        self._sync_directory()
        self._changed = False

    def _sync_directory(self) -> None:
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _text(self) -> bytes:
        rows = [[*target, self._originals[target]] for target in self.targets()]
        # Without an indent: with one the encoder is Python's own, five times as slow.
        body = json.dumps(rows, ensure_ascii=True).encode()
        head = f"{_MAGIC} {_FORMAT} {zlib.crc32(body):08x} {self._boot}\n"
        return head.encode() + body

    def _load(self) -> None:
        try:
            head, _, body = read_file(self.path, MOST_BYTES).partition(b"\n")
            magic, version, checksum, boot = head.decode("ascii").split(" ")
            if magic != _MAGIC or version != str(_FORMAT):
                raise self._unusable(f"{magic} {version}", f"{_MAGIC} {_FORMAT}")
            if int(checksum, 16) != zlib.crc32(body):
                raise self._unusable(checksum, "the checksum of what follows")
            rows = [(Target(*row[:3]), row[3]) for row in json.loads(body)]
            for target, value in rows:
                self._check(target, value)
        except OSError as error:
            raise self._unusable(error.strerror, "a file that can be read") from None
        except (ValueError, TypeError, IndexError, RecursionError):
            raise self._unusable(head[:40], "a journal of the executor") from None
        same = boot == self._boot
        self._originals = {t: v for t, v in rows if same or t.resource in OUTLIVES_REBOOT}

    @staticmethod
    def _check(target: Target, value: object) -> None:
        if not all(isinstance(part, str) for part in target) or not isinstance(value, str | int):
            raise ValueError("an entry is not three texts and a value")
        try:
            check_directory(target.directory)
        except KoordError as error:
            raise ValueError(str(error)) from None

    def _unusable(self, value: object, expected: str) -> KoordError:
        expected = f"{expected}; if nothing is to be restored from it, remove {self.path}"
        return KoordError(str(self.path), "", value, expected, Code.CORRUPT_STATE)
