# SPDX-License-Identifier: Apache-2.0
"""Frames and messages, however they are cut; what is too long or no message ends a connection."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.delivery.nri.connection import RuntimeConnection
from koord.delivery.nri.messages import NRI, TTRPC
from koord.delivery.nri.multiplexer import (
    MOST_PAYLOAD_BYTES,
    FrameReader,
    ProtocolError,
    frames_of,
)
from koord.delivery.nri.ttrpc import (
    MOST_BODY_BYTES,
    UNIMPLEMENTED,
    CallError,
    MessageReader,
    TtrpcMessage,
    pack,
    result_of,
)
from koord.delivery.proto import types_of
from tests.delivery.nri.wire import PLUGIN, RUNTIME, Pipe, call, frame, message, parsed

MESSAGES = st.lists(
    st.builds(TtrpcMessage, st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=40)),
    max_size=6,
)


@settings(max_examples=50)
@given(MESSAGES, st.data())
def test_messages_come_whole_however_they_are_cut(sent: list[TtrpcMessage], data: Any) -> None:
    whole = b"".join(map(pack, sent))
    # Frames of a connection need not begin where messages do.
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    framed = b"".join(frame(PLUGIN, piece) + frame(9, b"other") for piece in pieces)
    frames, reader, got = FrameReader(), MessageReader(), []
    for at in range(len(framed)):
        for number, payload in frames.feed(framed[at : at + 1]):
            if number == PLUGIN:
                got += list(reader.feed(payload))
    assert got == sent


def test_a_long_message_is_sent_in_frames_that_runtimes_can_read() -> None:
    sent = TtrpcMessage(7, 2, bytes(range(256)) * 100)
    assert parsed(frames_of(RUNTIME, pack(sent))) == [(RUNTIME, 7, 2, sent.body)]
    assert frames_of(PLUGIN, pack(TtrpcMessage(1, 2, b"x"))) == frame(PLUGIN, message(1, 2, b"x"))


def test_what_is_too_long_is_refused_before_it_is_read() -> None:
    list(FrameReader().feed(struct.pack(">II", 1, MOST_PAYLOAD_BYTES)))
    with pytest.raises(ProtocolError, match=r"frame: got 4194315 bytes"):
        list(FrameReader().feed(struct.pack(">II", 1, MOST_PAYLOAD_BYTES + 1)))
    list(MessageReader().feed(struct.pack(">IIBB", MOST_BODY_BYTES, 1, 1, 0)))
    with pytest.raises(ProtocolError, match=r"message: got 4194305 bytes"):
        list(MessageReader().feed(struct.pack(">IIBB", MOST_BODY_BYTES + 1, 1, 1, 0)))


def test_unknown_fields_stay_in_a_message() -> None:
    later = types_of(
        "later.proto",
        "package x;\nmessage PodSandbox {\n  string uid = 3;\n  string news = 900;\n}\n",
    ).PodSandbox(uid="u", news="n")
    known = NRI.PodSandbox.FromString(later.SerializeToString())
    assert known.uid == "u"
    assert type(later).FromString(known.SerializeToString()) == later


def test_a_line_that_is_no_field_is_refused() -> None:
    with pytest.raises(ValueError, match="M: got '  oops', expected a field"):
        types_of("m.proto", "package x;\nmessage M {\n  oops\n}\n")


def served(*pieces: bytes, handler: Any = None) -> list[tuple[int, int, int, bytes]]:
    """What a connection answers to bytes of a runtime that then closes."""

    async def echo(service: str, method: str, payload: bytes) -> bytes:
        if method == "Refused":
            raise CallError(UNIMPLEMENTED, "no such method")
        return method.encode() + payload

    async def whole() -> bytes:
        reader, pipe = asyncio.StreamReader(), Pipe()
        connection = RuntimeConnection(reader, cast("asyncio.StreamWriter", pipe), handler or echo)
        serving = asyncio.ensure_future(connection.serve())
        for piece in pieces:
            reader.feed_data(piece)
            for _ in range(10):
                await asyncio.sleep(0)
        reader.feed_eof()
        await serving
        return pipe.written

    return parsed(asyncio.run(whole()))


def test_calls_are_answered_on_their_streams() -> None:
    one, two = call(1, "One", NRI.Empty()), call(3, "Refused", NRI.Empty())
    for at in range(len(one + two)):
        (_, first, _, yes), (_, second, _, no) = served((one + two)[:at], (one + two)[at:])
        assert (first, second) == (1, 3)
        assert TTRPC.Response.FromString(yes).payload == b"One"
        status = TTRPC.Response.FromString(no).status
        assert (status.code, status.message) == (UNIMPLEMENTED, "no such method")


@pytest.mark.parametrize(
    "data",
    [
        frame(PLUGIN, message(1, 1, b"\xff\xff")),  # no Request
        frame(PLUGIN, message(1, 2, b"")),  # an answer to what nobody asked
        frame(PLUGIN, message(1, 3, b"")),  # data of a stream
        frame(RUNTIME, message(1, 1, b"")),  # a call where the plugin calls
        frame(PLUGIN, message(1, 0, b"")),
        struct.pack(">II", 1, 2**32 - 1),
    ],
)
def test_what_cannot_be_ends_the_connection(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        served(data)


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_noise_ends_a_connection_in_order_or_with_a_protocol_error(pieces: list[bytes]) -> None:
    with suppress(ProtocolError):
        served(*pieces, *(frame(PLUGIN, piece) for piece in pieces))


def test_an_answer_that_failed_is_an_error_with_its_code() -> None:
    failed = TTRPC.Response()
    failed.status.code, failed.status.message = 5, "not found"
    with pytest.raises(CallError, match="not found") as caught:
        result_of(TtrpcMessage(1, 2, failed.SerializeToString()))
    assert caught.value.code == 5
    with pytest.raises(ProtocolError, match="got no Response"):
        result_of(TtrpcMessage(1, 2, b"\xff"))
