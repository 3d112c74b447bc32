# SPDX-License-Identifier: Apache-2.0
"""How many bindings are under way at once, and by how many workers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from koord.controllers.scheduler.cycles.binder import Binder
from tests.kube.harness import run_virtual


def _binding(number: int) -> Any:
    """One with nothing to carry out."""
    return SimpleNamespace(number=number, node="node-1")


def _binder(workers: int) -> Binder:
    return Binder(None, str, lambda _: None, lambda _, error: None, workers=workers)


def test_as_many_wait_side_by_side_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    released = asyncio.Event()

    async def waits(self: Binder, binding: Any) -> None:
        begun.append(binding.number)
        await released.wait()

    monkeypatch.setattr(Binder, "_carry_out", waits)

    async def main() -> None:
        binder = _binder(100)
        for number in range(150):
            binder.start(_binding(number))
        await asyncio.sleep(0.001)
        assert begun == list(range(100))
        assert (binder.pending, binder.writing) == (150, 150)
        released.set()
        await asyncio.sleep(0.001)
        assert begun == list(range(150))
        assert binder.pending == 0
        binder.start(_binding(150))
        await asyncio.sleep(0.001)
        assert begun[-1] == 150
        assert binder.pending == 0

    run_virtual(main())


def test_one_worker_takes_all_that_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    workers: set[Any] = set()
    done: list[Any] = []

    async def at_once(self: Binder, binding: Any) -> None:
        workers.add(asyncio.current_task())
        done.append(binding.number)

    monkeypatch.setattr(Binder, "_carry_out", at_once)

    async def main() -> None:
        binder = _binder(100)
        for number in range(50):
            binder.start(_binding(number))
        await asyncio.sleep(0.001)
        assert done == list(range(50))
        assert len(workers) == 1
        assert binder.pending == 0

    run_virtual(main())


def test_closing_cancels_what_is_under_way_and_begins_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Any] = []

    async def waits(self: Binder, binding: Any) -> None:
        begun.append(binding.number)
        await asyncio.Event().wait()

    monkeypatch.setattr(Binder, "_carry_out", waits)

    async def main() -> None:
        binder = _binder(10)
        for number in range(20):
            binder.start(_binding(number))
        await asyncio.sleep(0.001)
        binder.start(_binding(20))
        await binder.close()
        await asyncio.sleep(0.001)
        assert begun == list(range(10))

    run_virtual(main())
