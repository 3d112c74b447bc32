# SPDX-License-Identifier: Apache-2.0
"""Logging: the standard library's, one line an event, key=value or JSON.

Example:
    >>> log = get("scheduler")
    >>> log.info("pod bound", extra=fields(pod="default/web", node="node-1"))
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO

# The original's -v levels: 0 warnings and results, 2 normal, 4 and above for finding faults.
_LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.INFO, 3: logging.INFO}

KLOG_FLAGS = (
    "logtostderr",
    "alsologtostderr",
    "stderrthreshold",
    "log_dir",
    "log_file",
    "log_file_max_size",
    "one_output",
    "add_dir_header",
    "skip_headers",
    "skip_log_headers",
    "vmodule",
    "log_backtrace_at",
)
"""Flags of klog, which Go programs take, beside ``-v``; they say nothing to this log."""


def fields(**values: object) -> dict[str, object]:
    """Structured fields of one event, for ``extra=``."""
    return {"koord_fields": values}


def get(component: str) -> logging.Logger:
    """The logger of a component, below ``koord``."""
    return logging.getLogger(f"koord.{component}")


def setup(verbosity: int = 2, as_json: bool = False, output: IO[str] | None = None) -> None:
    """Sends koord's events to one stream; calling again replaces the earlier set-up.

    Args:
        verbosity: ``-v`` level; 4 and above includes debug events.
        as_json: one JSON object a line instead of key=value.
        output: default standard error, since standard output carries data only.
    """
    root = logging.getLogger("koord")
    handler = logging.StreamHandler(output or sys.stderr)
    handler.setFormatter(_Json() if as_json else _KeyValue())
    root.handlers = [handler]
    root.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
    root.propagate = False


def _event(record: logging.LogRecord) -> dict[str, object]:
    event: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "component": record.name.removeprefix("koord."),
        "message": record.getMessage(),
    }
    event.update(getattr(record, "koord_fields", {}))
    if record.exc_info and record.exc_info[1] is not None:
        event["error"] = repr(record.exc_info[1])
    return event


class _KeyValue(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_word(value)}" for key, value in _event(record).items())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_event(record), default=str)


def _word(value: object) -> str:
    """A value without quotes if it reads back unambiguously, else as a JSON string."""
    text = str(value)
    plain = text and all(c.isprintable() and c not in ' "=' for c in text)
    return text if plain else json.dumps(text)
