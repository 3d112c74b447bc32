# SPDX-License-Identifier: Apache-2.0
"""Histories that failed once: files of one Python literal each, which the ordinary tests replay."""

from __future__ import annotations

import ast
import hashlib
import pprint
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "data" / "histories"

Case = dict[str, Any]
"""``subject``: its name; ``said``: what was wrong, one line; ``history``: what it replays."""


def keep(case: Case, folder: Path = FOLDER) -> Path:
    """Writes a case; the file is named after what happens in it, so that each is there once."""
    subject = case["subject"]
    digest = hashlib.sha256(repr((subject, case["history"])).encode()).hexdigest()[:12]
    name = "-".join(part for part in subject.replace(":", "/").split("/") if part)
    path = folder / f"{name}-{digest}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(pprint.pformat(case, width=98, sort_dicts=False) + "\n")
    return path


def read(path: Path) -> Case:
    """The case of a file.

    Raises:
        ValueError: it holds no case.
    """
    found = ast.literal_eval(path.read_text())
    if not isinstance(found, dict) or not {"subject", "said", "history"} <= found.keys():
        raise ValueError(f"{path.name}: got {type(found).__name__}, expected a case")
    return found


def paths(folder: Path = FOLDER) -> list[Path]:
    """All cases, by name."""
    return sorted(folder.glob("*.txt"))
