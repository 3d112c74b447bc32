# SPDX-License-Identifier: Apache-2.0
"""Messages of nf_tables as bytes, and whatever bytes come back."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host.traffic import netlink_messages as wire
from koord.agent.host.traffic.nftables import table_of
from koord.agent.host.traffic.plan import TrafficPlan
from koord.agent.host.traffic.socket_cgroups import SocketCgroup

ATTRIBUTES = st.lists(st.tuples(st.integers(1, 0x3FFF), st.binary(max_size=40)), max_size=8)


@given(ATTRIBUTES)
def test_attributes_are_read_as_they_were_written(rows: list[tuple[int, bytes]]) -> None:
    data = b"".join(wire.attribute(kind, payload) for kind, payload in rows)
    assert len(data) % 4 == 0
    assert list(wire.attributes(data)) == rows
    assert list(wire.attributes(wire.nested(7, data))) == [(7, data)]
    for kind, _ in rows:
        assert wire.first(data, kind) == next(its for other, its in rows if other == kind)


@given(st.lists(ATTRIBUTES, max_size=4), st.integers(0, 2**32 - 1))
def test_requests_are_read_as_they_were_written(
    bodies: list[list[tuple[int, bytes]]], sequence: int
) -> None:
    made = [
        wire.request(9, wire.CREATE, sequence, *(wire.attribute(*row) for row in rows))
        for rows in bodies
    ]
    seen = list(wire.messages(b"".join(made)))
    assert [(each.kind, each.sequence) for each in seen] == [(9, sequence)] * len(bodies)
    assert [list(wire.attributes(each.body)) for each in seen] == bodies


@given(st.binary(max_size=200), st.integers(0, 40))
def test_other_bytes_end_it(data: bytes, length: int) -> None:
    for cut in (data, struct.pack("=IHHII", length, 2, 0, 0, 0) + data):
        for message in wire.messages(cut):
            list(wire.attributes(message.body))
            wire.first(message.body, 1, 2, 3)
    list(wire.attributes(data))


def test_a_request_is_as_the_kernel_has_it() -> None:
    """nlmsghdr, nfgenmsg of the family inet, a table's name."""
    made = wire.request(2, wire.ACK, 5, wire.text(1, "t"))
    assert made.hex(" ", 4) == ("1c000000 020a0500 05000000 00000000 01000000 06000100 74000000")
    first, _, last = (wire.batch([made])[at : at + n] for at, n in ((0, 20), (20, 28), (48, 20)))
    assert (first[4:6], last[4:6], first[16:]) == (b"\x10\0", b"\x11\0", b"\0\0\0\x0a")


def test_a_table_has_a_map_a_kind_of_key() -> None:
    plan = TrafficPlan((), {"10.0.0.1": 4, "fd00::1": 3}, {"a/b": 4, "a/b/c": 3, "gone/d": 4})
    maps = table_of(plan, False, {"a/b": SocketCgroup(2, 7), "a/b/c": SocketCgroup(3, 8)}).maps
    assert maps == {
        "ipv4": {bytes([10, 0, 0, 1]): 0x10004},
        "ipv6": {bytes([0xFD, *[0] * 14, 1]): 0x10003},
        "cgroups2": {struct.pack("=Q", 7): 0x10004},
        "cgroups3": {struct.pack("=Q", 8): 0x10003},
    }
    both = table_of(plan, True, {})
    assert both.maps["classids"] == {struct.pack("=I", n): n for n in (0x10003, 0x10004)}
    assert both.rules == 3
