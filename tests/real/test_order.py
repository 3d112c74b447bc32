# SPDX-License-Identifier: Apache-2.0
"""What `make test-real` looks at, and in which order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.real.fixtures import LONG, pytest_collection_modifyitems, real_tests

ROOT = Path(__file__).resolve().parents[2]


def item(path: str, real: bool = True) -> Any:
    """A test that stands there."""
    return SimpleNamespace(
        path=ROOT / path, nodeid=path, get_closest_marker=lambda name: real and name == "real"
    )


def collected(expression: str, *items: Any) -> list[str]:
    """The order of tests of a run with such a ``-m``."""
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
    found = list(items)
    pytest_collection_modifyitems(config, found)
    return [each.nodeid for each in found]


def test_what_is_named_is_there() -> None:
    looked = real_tests((ROOT / "Makefile").read_text())
    assert "tests/contract" in looked
    assert "tests/real" in looked
    assert [name for name in looked if not (ROOT / name).exists()] == []
    assert [name for name in LONG if not (ROOT / "tests" / name).is_file()] == []


def test_long_files_come_first_on_a_real_control_plane_alone() -> None:
    paths = ["tests/kube/test_events.py", *(f"tests/{name}" for name in reversed(LONG))]
    there = [item(path) for path in paths]
    assert collected("not real", *there) == paths
    assert collected("real", *there) == [*(f"tests/{name}" for name in LONG), paths[0]]


def test_what_would_not_be_looked_at_is_refused() -> None:
    lost = "tests/kernels/test_quota.py"
    assert collected("", item(lost, real=False)) == [lost]
    with pytest.raises(pytest.UsageError, match=f"^{lost}: got mark real, expected REAL_TESTS"):
        collected("", item(lost))
