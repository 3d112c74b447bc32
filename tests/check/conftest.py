# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from koord.check.runner import check

Lines = Callable[..., list[str]]


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """Checks a text as one file; its problems without the file's name: ``3: error: Pod a: ...``."""

    def run(text: str) -> list[str]:
        path = tmp_path / "file.yaml"
        path.write_text(text, encoding="utf-8")
        return [str(each).removeprefix(f"{path}:") for each in check([str(path)]).problems]

    return run
