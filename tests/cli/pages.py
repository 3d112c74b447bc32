# SPDX-License-Identifier: Apache-2.0
"""What pages of the documentation say, for tests that hold programs against them."""

from __future__ import annotations

from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"


def compatibility(section: str) -> dict[str, str]:
    """The table of a section of docs/compatibility.md: what stands beside each flag and gate."""
    page = (_DOCS / "compatibility.md").read_text("utf-8")
    rows = {}
    for line in page.partition(f"## {section}")[2].partition("\n## ")[0].splitlines():
        if line.startswith("| `"):
            name, says = (cell.strip() for cell in line.strip("|").split("|"))
            rows[name.strip("`")] = says
    return rows
