# SPDX-License-Identifier: Apache-2.0
"""The stages of CPU samples name code that is there."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

import koord
from benchmarks.cpu_stages import OTHER, PLACES, stage
from koord.controllers.scheduler.cycles.binder import Binder

_ROOTS = [Path(str(module.__file__)).parent for module in (koord, asyncio, aiohttp)]
_SOURCES = [path for root in _ROOTS for path in root.rglob("*.py")]


@pytest.mark.parametrize(("path", "function"), [place[1:] for place in PLACES])
def test_each_place_is_there(path: str, function: str) -> None:
    found = [each for each in _SOURCES if path in str(each)]
    assert found
    if function:
        assert any(f"def {function}(" in each.read_text(encoding="utf-8") for each in found)


def test_a_stack_belongs_to_what_was_called_for_it() -> None:
    seen: list[str] = []

    def name(_: int) -> str:
        seen.append(stage(sys._getframe()))
        return "node"

    binding: Any = SimpleNamespace(decision=SimpleNamespace(row=0), node="")
    waits: Any = SimpleNamespace(seconds=1.0)

    async def begin() -> None:
        binder = Binder(None, name, lambda _: None, lambda _, __: None)
        # It waits for a permit: of more than the node's name nobody asks.
        binding.queued = SimpleNamespace(info=SimpleNamespace(uid="uid"))
        binder.start(binding, waits)
        await binder.close()

    asyncio.run(begin())
    assert seen == ["binding: workers, what follows"]
    assert stage(sys._getframe()) == OTHER
