# SPDX-License-Identifier: Apache-2.0
"""``koord topology``."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.callback()
def group() -> None:
    """Verbs of this group."""
