# SPDX-License-Identifier: Apache-2.0
"""The answers that pods get, byte for byte."""

from __future__ import annotations

import pytest

from tests.node.installed.dns import answer

_NAMES = {"web.default": "10.96.0.7"}
_HEAD = bytes.fromhex("abcd 0100 0001 0000 0000 0000")
_INTERNET = b"\x00\x01"


def _question(*labels: bytes, kind: int = 1) -> bytes:
    name = b"".join(bytes([len(each)]) + each for each in labels)
    return name + b"\x00" + bytes([0, kind]) + _INTERNET


@pytest.mark.parametrize("more", [(), (b"cluster", b"local"), (b"CLUSTER", b"local")])
def test_a_service_has_its_address(more: tuple[bytes, ...]) -> None:
    question = _question(b"web", b"default", b"svc", *more)
    head = bytes.fromhex("abcd 8180 0001 0001 0000 0000")
    record = bytes.fromhex("c00c 0001 0001 00000005 0004 0a600007")
    assert answer(_HEAD + question, _NAMES) == head + question + record


def test_a_service_has_no_address_of_another_kind() -> None:
    """28 asks for one of IPv6."""
    question = _question(b"web", b"default", b"svc", kind=28)
    head = bytes.fromhex("abcd 8180 0001 0000 0000 0000")
    assert answer(_HEAD + question, _NAMES) == head + question


@pytest.mark.parametrize(
    "labels", [(b"web", b"default"), (b"other", b"default", b"svc"), (b"example", b"test")]
)
def test_other_names_are_not_known(labels: tuple[bytes, ...]) -> None:
    question = _question(*labels)
    head = bytes.fromhex("abcd 8183 0001 0000 0000 0000")
    assert answer(_HEAD + question, _NAMES) == head + question


@pytest.mark.parametrize("query", [b"", _HEAD, _HEAD + b"\x03we", _HEAD + b"\x01\xff\x00"])
def test_what_is_no_question_has_no_answer(query: bytes) -> None:
    with pytest.raises(ValueError, match="expected a question"):
        answer(query, _NAMES)
