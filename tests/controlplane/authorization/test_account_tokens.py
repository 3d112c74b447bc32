# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts: whose, for whom, for how long; and what is none."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.clock import VirtualClock
from koord.controlplane.authorization.account_tokens import AUDIENCE, AccountTokens

Document = dict[str, Any]
ACCOUNT: Document = {"metadata": {"namespace": "ns", "name": "bot", "uid": "u1"}}
POD: Document = {"metadata": {"namespace": "ns", "name": "p", "uid": "u2"}}
BOUND = {"pod": {"name": "p", "uid": "u2"}, "node": {"name": "n1"}}


class Objects:
    """What is there."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], Document] = {
            ("serviceaccounts", "ns", "bot"): ACCOUNT, ("pods", "ns", "p"): POD,
        }  # fmt: skip

    def document(self, storage: str, namespace: str, name: str) -> Document | None:
        return self.found.get((storage, namespace, name))

    def documents(self, storage: str, namespace: str = "") -> Iterator[Document]:
        raise AssertionError("not asked")

    def generation(self, *storages: str) -> int:
        return 1


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_whose_a_token_is(clock: VirtualClock) -> None:
    objects = Objects()
    tokens = AccountTokens(b"key", objects, clock)
    token = tokens.sign(ACCOUNT, [AUDIENCE], 600, BOUND)
    who = tokens.identity(token)
    assert who is not None
    assert (who.name, who.uid) == ("system:serviceaccount:ns:bot", "u1")
    assert who.extra["authentication.kubernetes.io/node-name"] == ("n1",)
    assert tokens.identity(token, ["other"]) is None
    assert AccountTokens(b"other key", objects, clock).identity(token) is None
    objects.found["pods", "ns", "p"] = {"metadata": {**POD["metadata"], "uid": "u3"}}
    assert tokens.identity(token) is None


def test_a_token_ends(clock: VirtualClock) -> None:
    tokens = AccountTokens(b"key", Objects(), clock)
    token = tokens.sign(ACCOUNT, [AUDIENCE], 600, {})
    clock.advance(599)
    assert tokens.identity(token) is not None
    clock.advance(1)
    assert tokens.identity(token) is None


def _changed(token: str, **claims: Any) -> str:
    header, body, signature = token.split(".")
    padded = body + "=" * (-len(body) % 4)
    document = json.loads(base64.urlsafe_b64decode(padded)) | claims
    packed = base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")
    return f"{header}.{packed}.{signature}"


def test_claims_cannot_be_changed(clock: VirtualClock) -> None:
    tokens = AccountTokens(b"key", Objects(), clock)
    token = tokens.sign(ACCOUNT, [AUDIENCE], 600, {})
    assert tokens.identity(_changed(token)) is None
    assert tokens.identity(_changed(token, exp=2**40)) is None
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    body = token.split(".")[1]
    assert tokens.identity(f"{header}.{body}.") is None


@given(st.one_of(st.text(max_size=50), st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*", fullmatch=True)))
def test_anything_else_is_nobodys(text: str) -> None:
    assert AccountTokens(b"key", Objects(), VirtualClock()).identity(text) is None


def test_long_texts_are_not_looked_at() -> None:
    tokens = AccountTokens(b"key", Objects(), VirtualClock())
    assert tokens.identity("a." * 10**6) is None
