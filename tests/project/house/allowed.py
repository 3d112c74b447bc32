# SPDX-License-Identifier: Apache-2.0
"""The list of what is allowed against the rules: a TOML file that may only shrink."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Allowed = dict[str, dict[str, str]]
"""Reasons by check and key; an empty reason is a violation that waits to be mended."""

_HEAD = """\
# What is allowed against the rules that `python -m tests.project.house` checks; it may only shrink.
# The text behind a key is the reason for which it stays; without one it waits to be mended.
# `python -m tests.project.house --write` takes out what is no longer needed.
"""


def read(path: Path) -> Allowed:
    """The list; nothing is allowed where there is no file."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(path: Path, allowed: Allowed) -> None:
    """Writes the list, sorted."""
    tables = [_HEAD]
    for check, reasons in allowed.items():
        rows = [f"{json.dumps(key)} = {json.dumps(reasons[key])}\n" for key in sorted(reasons)]
        tables.append(f"\n[{check}]\n{''.join(rows)}")
    path.write_text("".join(tables), encoding="utf-8")


def renewed(allowed: Allowed, keys: Mapping[str, Iterable[str]]) -> Allowed:
    """The list for the violations that there are, which keep the reasons that they have.

    Args:
        allowed: the list so far; an empty one has not been written yet.
        keys: of the violations, by check.

    Raises:
        ValueError: a check has more than before; the message says which.
    """
    renewed = {
        check: {key: allowed.get(check, {}).get(key, "") for key in present}
        for check, present in keys.items()
    }
    for check, reasons in renewed.items():
        before, after = len(allowed.get(check, {})), len(reasons)
        if allowed and after > before:
            raise ValueError(f"{check}: {after} instead of {before}, and the list may only shrink")
    return renewed
