# SPDX-License-Identifier: Apache-2.0
"""CPU lists, read without koord: what it wrote is judged here."""

from __future__ import annotations


def ids(text: str) -> list[int]:
    """The CPUs of a list such as ``0-3,8``."""
    found: list[int] = []
    for part in text.strip().split(",") if text.strip() else []:
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return sorted(found)
