# SPDX-License-Identifier: Apache-2.0
"""What koord-webhook remembers by names that tenants choose is bounded.

Rule: docs/limits.md#koord-manager-koord-webhook-and-koord-descheduler.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys
from koord.base.clock import VirtualClock
from koord.controllers.cluster.quota_groups import group_of
from koord.controllers.webhook.elasticquotas import parent_writer
from koord.controllers.webhook.elasticquotas.minimum_claims import (
    LIFETIME_SECONDS,
    MOST_CLAIMS,
    ClaimBook,
)
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


def _claiming(name: str, *claims: dict[str, Any]) -> ElasticQuota:
    """A quota whose author has written claims of his own onto it."""
    text = msgspec.json.encode(claims).decode()
    meta = ObjectMeta(name=name, namespace="default", annotations={keys.QUOTA_CLAIMS: text})
    return ElasticQuota(metadata=meta)


def _claim(number: int, child: str = "nobody", **amounts: int) -> dict[str, Any]:
    return {"request": f"r{number}", "child": child, "min": amounts, "until": 1e18}


def _see(book: ClaimBook, item: ElasticQuota) -> None:
    book.see(item, group_of(item))


def _kept(book: ClaimBook) -> int:
    return sum(len(each.open) + len(each.done) for each in book._by_parent.values())


def test_claims_of_one_parent_that_its_author_makes_up() -> None:
    clock = VirtualClock(0.0)
    book = ClaimBook(clock)
    for number in range(0, 20 * MOST_CLAIMS, 100):
        _see(book, _claiming("p", *(_claim(number + n) for n in range(100))))
        assert _kept(book) <= MOST_CLAIMS
    assert len(book.open("p")) == MOST_CLAIMS
    # They hold no longer than one that koord makes, whatever they say.
    clock.advance(LIFETIME_SECONDS + 1)
    assert book.open("p") == []
    assert not book._by_parent


def test_a_claim_that_is_to_hold_forever_ends_though_its_parent_is_seen_again() -> None:
    clock = VirtualClock(0.0)
    book = ClaimBook(clock)
    _see(book, _claiming("p", _claim(1)))
    clock.advance(LIFETIME_SECONDS / 2)
    _see(book, _claiming("p", _claim(2)))
    clock.advance(LIFETIME_SECONDS / 2 + 1)
    assert [each.request for each in book.open("p")] == ["r2"]


def test_claims_that_are_met_as_soon_as_they_are_read() -> None:
    book = ClaimBook(VirtualClock(0.0))
    child = ElasticQuota(metadata=ObjectMeta(name="c", labels={keys.QUOTA_PARENT: "p"}))
    for number in range(0, 20 * MOST_CLAIMS, 100):
        _see(book, _claiming("p", *(_claim(number + n, "c") for n in range(100))))
        _see(book, child)
        assert book.open("p") == []
        assert _kept(book) <= MOST_CLAIMS
    book.forget("p")
    assert _kept(book) == 0


def test_parents_that_nobody_asks_for_any_more() -> None:
    clock = VirtualClock(0.0)
    book = ClaimBook(clock)
    for number in range(STEPS):
        _see(book, _claiming(f"p{number}", _claim(number)))
        clock.advance(1.0)
        assert len(book._by_parent) <= LIFETIME_SECONDS + 1


@pytest.mark.parametrize(
    "claim",
    [_claim(0) | {"request": "r" * 1000}, _claim(0, "c" * 1000),
     _claim(0, **{f"example.com/{n}": 1 for n in range(65)})],
)  # fmt: skip
def test_claims_larger_than_any_that_koord_makes(claim: dict[str, Any]) -> None:
    book = ClaimBook(VirtualClock(0.0))
    _see(book, _claiming("p", claim, _claim(1)))
    assert [each.request for each in book.open("p")] == ["r1"]
