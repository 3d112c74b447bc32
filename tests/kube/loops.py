# SPDX-License-Identifier: Apache-2.0
"""Tests on both event loops: asyncio's, and that of the programs that run once per cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from koord.kube.daemon.event_loop import new_event_loop


@pytest.fixture(scope="module", autouse=True, params=["asyncio", "uvloop"])
def on_both_loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has :func:`asyncio.run` take one loop or the other, for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "uvloop":
            pytest.importorskip("uvloop")
            patch.setattr(asyncio.events, "new_event_loop", new_event_loop)
        yield
