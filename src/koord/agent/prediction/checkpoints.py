# SPDX-License-Identifier: Apache-2.0
"""Models on disk, so that a restart forgets nothing: one file a model.

A checkpoint is only worth something while its pod lives, so one that cannot be read, or whose pod
is gone, is deleted and told of; nothing stops for it.

Rule: docs/reference/measuring.md#checkpoint-files.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koord.agent.host.private_files import (
    make_folder,
    read_file,
    whole_or_gone,
    write_new,
)
from koord.base import faults, log
from koord.base.errors import one_line, value_text

if TYPE_CHECKING:
    from collections.abc import Container

    from koord.agent.prediction.usage_models import UsageModel, UsageModels
    from koord.kube.dry_run import DryRun

VERSION = 1
MOST_BYTES = 1 << 20
"""A checkpoint has some kilobytes; a larger file is none."""
_SUFFIX = ".tmp"
_TIMES_MS = range(253_402_300_800_000)  # until the year 10000, which other times end before
_MILLI = 1000
_LOG = log.get("agent.prediction")


class Checkpoints:
    """The files of all models.

    Args:
        folder: made if it is not there; nothing else may lie in it.
        dry_run: takes what would be written and deleted; None writes.
    """

    def __init__(self, folder: str | os.PathLike[str], dry_run: DryRun | None = None) -> None:
        self._folder, self._dry_run = Path(folder), dry_run

    def restore(self, models: UsageModels, known: Container[str]) -> list[str]:
        """Reads the models whose names are known; deletes every other file.

        Returns:
            The names of what was restored, in order.
        """
        restored: list[str] = []
        if self._dry_run is None:
            make_folder(self._folder)
        elif self._folder.is_symlink() or not self._folder.is_dir():
            return restored
        for path in sorted(self._folder.iterdir()):
            name = path.name
            if name.endswith(_SUFFIX) or name not in known:
                self._delete(name)
                continue
            try:
                text = read_file(path, MOST_BYTES)
                models.by_name[name] = _loaded(models, json.loads(text))
                restored.append(name)
            # What is nested too deep for the reader is a RecursionError, what is too large for a
            # number an OverflowError.
            except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as e:
                told = log.fields(path=str(path), reason=one_line(f"{type(e).__name__}: {e}"))
                _LOG.warning("checkpoint deleted", extra=told)
                self._delete(name)
        return restored

    def step(self, models: UsageModels, now_ms: int) -> list[str]:
        """Deletes the files of expired models and writes the oldest checkpoints anew.

        Returns:
            The names of what was written, the oldest checkpoint first.
        """
        for name in models.expire(now_ms):
            self._delete(name)
        due_ms = now_ms - int(models.options.checkpoint_seconds * _MILLI)
        oldest = sorted(models.by_name.items(), key=lambda item: (item[1].saved_ms, item[0]))
        written = []
        for name, model in oldest[: models.options.checkpoints_per_step]:
            if model.saved_ms > due_ms:
                break
            self._write(name, model)
            model.saved_ms = now_ms
            written.append(name)
        return written

    def _write(self, name: str, model: UsageModel) -> None:
        body = {
            "cpu": model.cpu.save(),
            "memory": model.memory.save(),
            "updatedMilliseconds": model.updated_ms,
        }
        if self._dry_run is not None:
            self._dry_run.record_local("write", str(self._folder / name))
            return
        text = json.dumps(body, sort_keys=True)
        document = {"version": VERSION, "crc32": zlib.crc32(text.encode()), "model": body}
        make_folder(self._folder)
        partial = self._folder / f"{name}{_SUFFIX}"
        with whole_or_gone(partial), write_new(partial) as file:
            file.write(json.dumps(document, sort_keys=True).encode())
            file.flush()
            faults.point("agent.prediction.sync")
            os.fsync(file.fileno())
        faults.point("agent.prediction.rename")
        partial.replace(self._folder / name)

    def _delete(self, name: str) -> None:
        if self._dry_run is None:
            try:
                (self._folder / name).unlink(missing_ok=True)
            except OSError as error:  # A folder, say: it stays, and is told of.
                _LOG.warning("checkpoint not deleted", extra=log.fields(error=str(error)))
        elif (self._folder / name).exists():
            self._dry_run.record_local("delete", str(self._folder / name))


def _loaded(models: UsageModels, document: dict[str, Any]) -> UsageModel:
    body = document["model"]
    if document["version"] != VERSION:
        raise ValueError(f"version: got {document['version']!r}, expected {VERSION}")
    if document["crc32"] != zlib.crc32(json.dumps(body, sort_keys=True).encode()):
        raise ValueError("crc32: does not match, the file is damaged")
    model = models.new()
    model.cpu.load(body["cpu"])
    model.memory.load(body["memory"])
    updated = body["updatedMilliseconds"]
    if isinstance(updated, bool) or not isinstance(updated, int) or updated not in _TIMES_MS:
        raise ValueError(f"updatedMilliseconds: got {value_text(updated)}, expected a time")
    model.updated_ms = updated
    return model
