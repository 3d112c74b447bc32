# SPDX-License-Identifier: Apache-2.0
"""The splitter gives the same lines whatever chunks the bytes come in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kube.errors import TransportError
from koord.kube.transport.line_splitter import LineSplitter

TEXT = st.lists(st.sampled_from([b"{}", b"\n", b"a", b"\n\n", b" ", b"\r\n", b"bc" * 50])).map(
    b"".join
)


def chunks_of(text: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(places)]


@given(TEXT, st.lists(st.integers(0, 400)))
def test_chunking_does_not_matter(text: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter()
    got = [line for chunk in chunks_of(text, cuts) for line in splitter.feed(chunk)]
    *whole, rest = text.split(b"\n")
    assert got == [line for line in whole if line.strip()]
    if rest.strip():
        with pytest.raises(TransportError, match="in the middle of an event"):
            splitter.finish()
    else:
        splitter.finish()


def test_a_long_line_is_joined_once() -> None:
    splitter = LineSplitter(most_bytes=4 << 20)
    for _ in range(1000):
        assert splitter.feed(b"x" * 4000) == []
    assert splitter.feed(b"y\nz") == [b"x" * 4_000_000 + b"y"]


def test_a_line_without_end_is_refused() -> None:
    splitter = LineSplitter(most_bytes=10)
    assert splitter.feed(b"12345\n67890") == [b"12345"]
    with pytest.raises(TransportError, match="longer than 10 bytes"):
        splitter.feed(b"123456")
