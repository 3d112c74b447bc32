# SPDX-License-Identifier: Apache-2.0
"""RDMA network functions, from sysfs. Rule: docs/reference/measuring.md#rdma-cards."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import count

from koord.agent.host import files
from koord.agent.host.devices import pci
from koord.base.errors import KoordError

_NETWORK = 0x02
_UNNUMBERED = -1
_ACTIVE = "ACTIVE"
_NUMBERED = re.compile(r"mlx[0-9]+_([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RDMADevice:
    """A physical network function that does RDMA.

    Attributes:
        minor: the number in its name.
        name: of the RDMA device, such as ``mlx5_0``.
        bus_id: ``0000:3b:00.0``.
        pcie_root: ``pci0000:3a``; empty where sysfs does not tell.
        node: NUMA node; 0 where unknown.
        virtual: bus ids of its virtual functions, ascending.
        healthy: whether all its ports are active.
    """

    minor: int
    name: str
    bus_id: str
    pcie_root: str
    node: int
    virtual: tuple[str, ...]
    healthy: bool


def read_rdma(sys: str) -> list[RDMADevice]:
    """All of them, by bus id; functions whose files make no sense are left out.

    Raises:
        KoordError: the PCI devices cannot be listed.
    """
    found: list[RDMADevice] = []
    for bus_id in pci.bus_ids(sys):
        directory = pci.directory(sys, bus_id)
        names = files.names(f"{directory}/infiniband")
        if not names or not _is_network(directory) or files.exists(f"{directory}/physfn"):
            continue
        found.append(
            RDMADevice(
                minor=_UNNUMBERED,
                name=names[0],
                bus_id=bus_id,
                pcie_root=pci.root_of(sys, bus_id),
                node=pci.node_of(sys, bus_id),
                virtual=_virtual(directory),
                healthy=_is_healthy(f"{directory}/infiniband/{names[0]}/ports"),
            )
        )
    return _numbered(found)


def _numbered(cards: list[RDMADevice]) -> list[RDMADevice]:
    """With minors: the numbers in their names, of two with one number the first by bus id's.

    The others get the lowest numbers that are free.
    """
    minors: dict[str, int] = {}
    for card in cards:
        match = _NUMBERED.fullmatch(card.name)
        if match and int(match[1]) not in minors.values():
            minors[card.bus_id] = int(match[1])
    taken = set(minors.values())
    free = (number for number in count() if number not in taken)
    return [
        replace(card, minor=minors[card.bus_id] if card.bus_id in minors else next(free))
        for card in cards
    ]


def _is_healthy(ports: str) -> bool:
    """Whether there are ports, and the state of each is active."""
    try:
        states = [files.read_text(f"{ports}/{port}/state") for port in files.names(ports)]
    except KoordError:
        return False
    return bool(states) and all(_ACTIVE in state for state in states)


def _is_network(directory: str) -> bool:
    try:
        return files.read_int(f"{directory}/class", 16) >> 16 == _NETWORK
    except KoordError:
        return False


def _virtual(directory: str) -> tuple[str, ...]:
    links = [name for name in files.names(directory) if name.startswith("virtfn")]
    targets = (files.link(f"{directory}/{name}").rpartition("/")[2] for name in links)
    return tuple(sorted(target for target in targets if target))
