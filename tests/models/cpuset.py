# SPDX-License-Identifier: Apache-2.0
"""Linux cpu lists over Python's sets: the rule, written to be read."""

from __future__ import annotations

import re

MAX_ID = 8191
MAX_WIRE_RANGE_END = 4096
_STRICT = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_WIRE = re.compile(r"(\+?\d+)(?:-(\+?\d+))?", re.ASCII)


def parse(text: str) -> set[int]:
    """Strict: every id once, ranges ascending."""
    ids: set[int] = set()
    for item in text.split(",") if text else []:
        match = _STRICT.fullmatch(item)
        if not match:
            raise ValueError(item)
        first, last = int(match[1]), int(match[2] or match[1])
        added = set(range(first, last + 1)) if last <= MAX_ID else set()
        if not added or added & ids:
            raise ValueError(item)
        ids |= added
    return ids


def parse_wire(text: str) -> set[int]:
    """Lenient: repeats are fine and reversed ranges empty."""
    ids: set[int] = set()
    for item in text.split(",") if text else []:
        match = _WIRE.fullmatch(item)
        if not match or max(int(number) for number in match.groups("0")) >= 2**31:
            raise ValueError(item)
        first, last = int(match[1]), int(match[2] or match[1])
        if last > (MAX_WIRE_RANGE_END if match[2] else MAX_ID):
            raise ValueError(item)
        ids |= set(range(first, last + 1))
    return ids


def canonical(ids: set[int]) -> str:
    """Ascending, runs of two or more as a-b."""
    runs: list[list[int]] = []
    for cpu in sorted(ids):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
