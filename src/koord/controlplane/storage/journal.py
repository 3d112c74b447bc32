# SPDX-License-Identifier: Apache-2.0
"""The store's SQLite file: the present state of every object, and the version it has reached.

Commits are handed to the operating system before they are acknowledged, so that a killed process
loses none; ``synchronous=FULL`` would extend that to a power failure, at an fsync a commit.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from typing import TYPE_CHECKING

import msgspec

from koord.base import faults
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from koord.controlplane.storage.store import StoreWrite

_APPLICATION_ID = 0x6B6F7264  # "kord"
_FORMAT = 1
_TABLES = (
    "CREATE TABLE objects (storage TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL,"
    " sum INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (storage, key)) WITHOUT ROWID",
    "CREATE TABLE versions (storage TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id={_APPLICATION_ID}",
    f"PRAGMA user_version={_FORMAT}",
)


class JournalRow(msgspec.Struct, frozen=True, gc=False):
    """One object as the file has it."""

    storage: str
    key: str
    version: int
    body: bytes


class StorageJournal:
    """One file, held by one server at a time.

    Args:
        path: made where it is not there.

    Raises:
        KoordError: it is held by another server, damaged, or of another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # Never readable to others.
            self._database = sqlite3.connect(path, isolation_level=None, timeout=0)
        except (sqlite3.Error, OSError) as error:
            why = getattr(error, "strerror", None) or str(error)
            expected = "a file in a folder that can be written"
            raise KoordError(str(path), "", why, expected, Code.UNREADABLE) from None
        try:
            path.chmod(0o600)
            self._open()
        except (sqlite3.Error, OSError) as error:
            self._database.close()
            raise self._unusable(error) from None
        except KoordError:
            self._database.close()
            raise

    def versions(self) -> dict[str, int]:
        """By storage, the version of its last change."""
        return dict(self._database.execute("SELECT storage, version FROM versions"))

    def load(self) -> Iterator[JournalRow]:
        """Every object, by storage and key.

        Raises:
            KoordError: one is damaged.
        """
        query = "SELECT storage, key, version, sum, body FROM objects ORDER BY storage, key"
        try:
            for storage, key, version, total, body in self._database.execute(query):
                if zlib.crc32(body) != total:
                    raise self._unusable(ValueError(f"{storage} {key} has a wrong checksum"))
                yield JournalRow(storage, key, version, body)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def commit(self, writes: Sequence[StoreWrite]) -> None:
        """Writes all or nothing.

        Raises:
            OSError: nothing was written.
        """
        kept = [(w.storage, w.key, w.version, zlib.crc32(w.body), w.body)
                for w in writes if w.body is not None]  # fmt: skip
        latest = {write.storage: write.version for write in writes}
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            faults.point("controlplane.journal.write")
            if len(kept) == len(writes):
                database.executemany("INSERT OR REPLACE INTO objects VALUES (?,?,?,?,?)", kept)
            else:
                self._write_in_order(writes)
            database.executemany("INSERT OR REPLACE INTO versions VALUES (?,?)", latest.items())
            faults.point("controlplane.journal.commit")
            database.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise OSError(str(error)) from error

    def close(self) -> None:
        """Gives the file back; may be called more than once."""
        self._database.close()

    def _write_in_order(self, writes: Sequence[StoreWrite]) -> None:
        for write in writes:
            if write.body is None:
                place = (write.storage, write.key)
                self._database.execute("DELETE FROM objects WHERE storage=? AND key=?", place)
            else:
                row = (write.storage, write.key, write.version, zlib.crc32(write.body), write.body)
                self._database.execute("INSERT OR REPLACE INTO objects VALUES (?,?,?,?,?)", row)

    def _open(self) -> None:
        database = self._database
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("BEGIN IMMEDIATE")
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (identity,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if not tables and not identity:
            for statement in _TABLES:
                database.execute(statement)
        elif identity != _APPLICATION_ID:
            raise self._unusable(ValueError("it is no journal of koord"))
        elif version != _FORMAT:
            raise self._unusable(ValueError(f"it has format {version}, not {_FORMAT}"))
        database.execute("COMMIT")
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._unusable(ValueError(str(verdict)))

    def _unusable(self, error: Exception) -> KoordError:
        why = str(error).splitlines()[0]
        if "locked" in why:
            return KoordError(str(self._path), "", why, "a file that no other server holds")
        return KoordError(
            str(self._path), "", why, "a journal; remove the file to start empty", Code.UNREADABLE
        )
