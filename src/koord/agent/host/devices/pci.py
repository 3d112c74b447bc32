# SPDX-License-Identifier: Apache-2.0
"""PCI functions in sysfs."""

from __future__ import annotations

import re

from koord.agent.host import files
from koord.base.errors import KoordError

_ROOT = re.compile(r"pci\d{4}:[0-9a-f]{2}", re.ASCII)
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


def bus_ids(sys: str) -> list[str]:
    """All functions, ascending.

    Raises:
        KoordError: they cannot be listed.
    """
    return [name for name in files.names(f"{sys}/bus/pci/devices") if _BUS_ID.fullmatch(name)]


def normal_bus_id(text: str) -> str:
    """A bus id as sysfs writes it: NVML's has eight digits in front and upper-case hex."""
    domain, colon, rest = text.strip().lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if colon and re.fullmatch("[0-9a-f]+", domain) else ""


def directory(sys: str, bus_id: str) -> str:
    """Where a function's files are."""
    return f"{sys}/bus/pci/devices/{bus_id}"


def root_of(sys: str, bus_id: str) -> str:
    """The root complex that the function hangs off, such as ``pci0000:3a``; empty if unknown."""
    found = _ROOT.search(files.link(directory(sys, bus_id)))
    return found[0] if found else ""


def node_of(sys: str, bus_id: str) -> int:
    """The NUMA node; 0 where the firmware does not say, which is what -1 means."""
    try:
        return max(0, files.read_int(f"{directory(sys, bus_id)}/numa_node"))
    except KoordError:
        return 0
