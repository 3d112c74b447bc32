# SPDX-License-Identifier: Apache-2.0
"""Which packets belong to which class: one nf_tables table of koord's own, replaced as a whole.

A packet's class is its priority, which HTB takes for a handle. Source addresses are looked up
before they are masqueraded, and an inner packet keeps its class within a tunnel's.
Rule: docs/reference/hooks.md#tcnetworkqos.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from koord.agent.host.traffic import netlink_messages as wire
from koord.agent.host.traffic.plan import handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.agent.host.traffic.plan import TrafficPlan
    from koord.agent.host.traffic.socket_cgroups import SocketCgroup

TABLE: Final = "koord_network"
IPV4, IPV6, CLASSIDS, CGROUPS = "ipv4", "ipv6", "classids", "cgroups"
_FORWARDED, _LOCAL = "addresses", "sockets"
_KEY_BYTES = {IPV4: 4, IPV6: 16, CLASSIDS: 4, CGROUPS: 8}
_KEY_TYPES = {IPV4: 7, IPV6: 8, CLASSIDS: 23, CGROUPS: 46}  # as nft(8) shows them
_CLASSID_TYPE, _MAP = 23, 0x8
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _GETRULE = 0, 2, 3, 6, 7
_NEWSET, _GETSET, _NEWELEMENTS, _GETELEMENTS = 9, 10, 12, 13
_OUTPUT, _POSTROUTING = 3, 4
_AFTER_MANGLE = -149  # what the original's agent left there has no say
_META_PRIORITY, _META_NFPROTO, _META_CGROUP = 2, 15, 23
_SOCKET_CGROUP, _NETWORK_HEADER, _REGISTER = 3, 1, 1
_IN_A_MESSAGE = 400  # an attribute has at most 64 KiB
_BUFFER_BYTES, _SECONDS = 8 << 20, 5.0
_NETLINK_NETFILTER, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 12, 32, 33  # linux, not in socket


@dataclass(frozen=True)
class PacketTable:
    """The table's content.

    Attributes:
        maps: handle of a class by key, by name of the map; those of cgroups have their level in
            the name, ``cgroups3``.
        rules: how many rules it has.
    """

    maps: Mapping[str, Mapping[bytes, int]] = field(default_factory=dict)
    rules: int = 0


def table_of(plan: TrafficPlan, classids: bool, cgroups: Mapping[str, SocketCgroup]) -> PacketTable:
    """The table of a plan.

    Args:
        plan: addresses, and pods in the node's network.
        classids: whether sockets are told apart by ``net_cls.classid``, as on cgroup v1.
        cgroups: those of the plan's cgroup directories that are there, on v2.
    """
    maps: dict[str, dict[bytes, int]] = {IPV4: {}, IPV6: {}}
    for text, minor in plan.addresses.items():
        address = ip_address(text)
        maps[IPV4 if address.version == 4 else IPV6][address.packed] = handle(minor)
    if classids and plan.cgroups:
        handles = {handle(minor) for minor in plan.cgroups.values()}
        maps[CLASSIDS] = {struct.pack("=I", each): each for each in sorted(handles)}
    for directory, (level, number) in cgroups.items():
        named = maps.setdefault(f"{CGROUPS}{level}", {})
        named[struct.pack("=Q", number)] = handle(plan.cgroups[directory])
    return PacketTable(maps, len(maps))


class NfTables:
    """The kernel's side, in the network namespace of the calling thread."""

    def read(self) -> PacketTable | None:
        """The table as it is; None where there is none.

        Raises:
            OSError: it cannot be read.
        """
        with _Socket() as kernel:
            try:
                sets = [_name(body) for body in kernel.dump(_GETSET, wire.text(1, TABLE))]
            except OSError as error:
                if error.errno == errno.EINVAL:
                    raise OSError(errno.EOPNOTSUPP, "this kernel has no nf_tables") from None
                raise
            rules = sum(1 for _ in kernel.dump(_GETRULE, wire.text(1, TABLE)))
            if not sets and not rules:
                return None
            return PacketTable({name: dict(kernel.elements(name)) for name in sets}, rules)

    def replace(self, table: PacketTable | None) -> None:
        """Puts a table in the place of the one before, in one step; None removes it.

        Raises:
            OSError: nothing was changed.
        """
        with _Socket() as kernel:
            kernel.commit([*_removal(), *(_creation(table) if table else [])])


def _name(body: bytes) -> str:
    return (wire.first(body, 2) or b"").rstrip(b"\0").decode("ascii", "replace")


def _removal() -> list[tuple[int, int, list[bytes]]]:
    # Making one that is there is no error, removing one that is not would be.
    name = [wire.text(1, TABLE), wire.number(2, 0)]
    return [(_NEWTABLE, wire.CREATE, name), (_DELTABLE, 0, name[:1])]


def _creation(table: PacketTable) -> list[tuple[int, int, list[bytes]]]:
    name = wire.text(1, TABLE)
    made = [(_NEWTABLE, wire.CREATE, [name, wire.number(2, 0)])]
    # A socket's cgroup is known where a packet leaves it, and not later.
    for chain, hook in ((_LOCAL, _OUTPUT), (_FORWARDED, _POSTROUTING)):
        at = wire.nested(4, wire.number(1, hook), wire.number(2, _AFTER_MANGLE))
        rows = [name, wire.text(3, chain), at, wire.number(5, 1), wire.text(7, "filter")]
        made.append((_NEWCHAIN, wire.CREATE, rows))
    for number, (title, keys) in enumerate(table.maps.items(), 1):
        kind = title.rstrip("0123456789") if title.startswith(CGROUPS) else title
        made.append((_NEWSET, wire.CREATE, _map(title, kind, number)))
        made += [(_NEWELEMENTS, wire.CREATE, part) for part in _elements(title, keys)]
        chain = _FORWARDED if kind in (IPV4, IPV6) else _LOCAL
        rule = [name, wire.text(2, chain), _expressions(title, kind, number)]
        made.append((_NEWRULE, wire.CREATE | wire.APPEND, rule))
    return made


def _map(title: str, kind: str, number: int) -> list[bytes]:
    values = (_MAP, _KEY_TYPES[kind], _KEY_BYTES[kind], _CLASSID_TYPE, 4)
    settings = [wire.number(at, value) for at, value in enumerate(values, 3)]
    return [wire.text(1, TABLE), wire.text(2, title), *settings, wire.number(10, number)]


def _elements(title: str, rows: Mapping[bytes, int]) -> Iterator[list[bytes]]:
    made = [
        wire.nested(
            1,
            wire.nested(1, wire.attribute(1, key)),
            wire.nested(2, wire.attribute(1, struct.pack("=I", value))),
        )
        for key, value in rows.items()
    ]
    for at in range(0, len(made), _IN_A_MESSAGE):
        part = wire.nested(3, *made[at : at + _IN_A_MESSAGE])
        yield [wire.text(1, TABLE), wire.text(2, title), part]


def _expressions(title: str, kind: str, number: int) -> bytes:
    """Load the key, look it up, and what is found is the packet's priority."""
    lookup = _expression(
        "lookup", wire.text(1, title), wire.number(2, _REGISTER), wire.number(3, _REGISTER),
        wire.number(4, number),
    )  # fmt: skip
    save = _expression("meta", wire.number(2, _META_PRIORITY), wire.number(3, _REGISTER))
    return wire.nested(4, *_key(title, kind), lookup, save)


def _key(title: str, kind: str) -> list[bytes]:
    if kind == CLASSIDS:
        return [_load("meta", wire.number(2, _META_CGROUP))]
    if kind == CGROUPS:
        level = wire.number(3, int(title.removeprefix(CGROUPS)))
        return [
            _expression("socket", wire.number(1, _SOCKET_CGROUP), wire.number(2, _REGISTER), level)
        ]
    protocol, offset = (socket.AF_INET, 12) if kind == IPV4 else (socket.AF_INET6, 8)
    same = wire.nested(3, wire.attribute(1, struct.pack("=B", protocol)))
    at = [wire.number(n, v) for n, v in ((2, _NETWORK_HEADER), (3, offset), (4, _KEY_BYTES[kind]))]
    return [
        _load("meta", wire.number(2, _META_NFPROTO)),
        _expression("cmp", wire.number(1, _REGISTER), wire.number(2, 0), same),
        _load("payload", *at),
    ]


def _load(name: str, *settings: bytes) -> bytes:
    return _expression(name, wire.number(1, _REGISTER), *settings)


def _expression(name: str, *settings: bytes) -> bytes:
    return wire.nested(1, wire.text(1, name), wire.nested(2, *settings))


class _Socket:
    """One conversation with nf_tables."""

    def __init__(self) -> None:
        self._sequence = 0
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self._socket.settimeout(_SECONDS)
        self._socket.bind((0, 0))

    def __enter__(self) -> _Socket:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def dump(self, kind: int, *filters: bytes) -> Iterator[bytes]:
        """Bodies of all that the kernel lists; none where the table is not there."""
        sequence = self._next()
        self._socket.send(wire.request(kind, wire.DUMP, sequence, *filters))
        while True:
            for message in self._received(sequence):
                if message.kind in (wire.ERROR, wire.DONE):
                    self._check(message.body, errno.ENOENT)
                    return
                yield message.body

    def elements(self, name: str) -> Iterator[tuple[bytes, int]]:
        """Key and value of each element of a map."""
        for body in self.dump(_GETELEMENTS, wire.text(1, TABLE), wire.text(2, name)):
            for _, element in wire.attributes(wire.first(body, 3) or b""):
                key, value = wire.first(element, 1, 1), wire.first(element, 2, 1)
                if key is not None and value is not None:
                    yield key, int(struct.unpack("=I", value[:4])[0])

    def commit(self, steps: list[tuple[int, int, list[bytes]]]) -> None:
        """Does all steps in one; the last is acknowledged."""
        made = [wire.request(k, flags, self._next(), *rows) for k, flags, rows in steps[:-1]]
        kind, flags, rows = steps[-1]
        last = self._next()
        made.append(wire.request(kind, flags | wire.ACK, last, *rows))
        data = wire.batch(made)
        for option in (_SO_SNDBUFFORCE, _SO_RCVBUFFORCE):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self._socket.send(data)
        while True:
            for message in self._received(None):
                if message.kind == wire.ERROR:
                    self._check(message.body)
                    if message.sequence == last:
                        return

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _received(self, sequence: int | None) -> Iterator[wire.NetlinkMessage]:
        found = wire.messages(self._socket.recv(1 << 18))
        return (each for each in found if sequence is None or each.sequence == sequence)

    @staticmethod
    def _check(body: bytes, allowed: int = 0) -> None:
        if len(body) >= 4:
            number = -struct.unpack("=i", body[:4])[0]
            if number not in (0, allowed):
                raise OSError(number, f"nf_tables: {os.strerror(number)}")
