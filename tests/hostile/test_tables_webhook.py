# SPDX-License-Identifier: Apache-2.0
"""What koord-webhook remembers by names that tenants choose is bounded.

Rule: docs/limits.md#koord-manager-koord-webhook-and-koord-descheduler.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from koord.controllers.webhook.elasticquotas import parent_writer
from koord.controllers.webhook.elasticquotas.parent_writer import ParentWriter
from koord.controllers.webhook.framework.admission_decision import ALLOWED
from tests.kube.harness import run_virtual

STEPS = 5000


class Claims:
    """No claims of anybody, and nothing to write of them."""

    def has(self, parent: str, request: str) -> bool:
        return False

    def open(self, parent: str) -> list[Any]:
        return []

    def claim(self, request: str, child: Any) -> str:
        return request


class Parents:
    """Whatever parent is asked for is there."""

    book = Claims()
    tree = SimpleNamespace(item=lambda name: name)

    async def seen(self, name: str, version: str) -> bool:
        return True


def test_parents_that_came_and_went(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(self: ParentWriter, parent: Any, text: str) -> str:
        return "2"

    monkeypatch.setattr(ParentWriter, "_write", write)
    monkeypatch.setattr(parent_writer.annotation, "text", str)
    state: Any = Parents()
    writer = ParentWriter(None, state)  # type: ignore[arg-type]

    async def story() -> None:
        for number in range(STEPS):
            child: Any = SimpleNamespace(parent=f"parent-{number}")
            assert await writer.settle(child, "request", list) == ALLOWED
            assert len(writer._written) <= parent_writer.MOST_WRITTEN < STEPS

    run_virtual(story())
    assert not writer._locks
