# SPDX-License-Identifier: Apache-2.0
"""RDMA network functions, from sysfs. Rule: docs/reference/measuring.md#rdma-cards."""

from __future__ import annotations

from dataclasses import dataclass

from koord.agent.host import files, pci
from koord.base.errors import KoordError

_NETWORK = 0x02


@dataclass(frozen=True, slots=True)
class RDMADevice:
    """A physical network function that does RDMA.

    Attributes:
        minor: position among the machine's RDMA functions by bus id.
        name: of the RDMA device, such as ``mlx5_0``.
        bus_id: ``0000:3b:00.0``.
        pcie_root: ``pci0000:3a``; empty where sysfs does not tell.
        node: NUMA node; 0 where unknown.
        virtual: bus ids of its virtual functions, ascending.
    """

    minor: int
    name: str
    bus_id: str
    pcie_root: str
    node: int
    virtual: tuple[str, ...]


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
                minor=len(found),
                name=names[0],
                bus_id=bus_id,
                pcie_root=pci.root_of(sys, bus_id),
                node=pci.node_of(sys, bus_id),
                virtual=_virtual(directory),
            )
        )
    return found


def _is_network(directory: str) -> bool:
    try:
        return files.read_int(f"{directory}/class", 16) >> 16 == _NETWORK
    except KoordError:
        return False


def _virtual(directory: str) -> tuple[str, ...]:
    links = [name for name in files.names(directory) if name.startswith("virtfn")]
    targets = (files.link(f"{directory}/{name}").rpartition("/")[2] for name in links)
    return tuple(sorted(target for target in targets if target))
