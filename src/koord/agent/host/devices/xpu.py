# SPDX-License-Identifier: Apache-2.0
"""Accelerators that other programs describe in files.

Rule: docs/reference/measuring.md#device-infos-files.
"""

from __future__ import annotations

import os
import stat

import msgspec

from koord.agent.host import files
from koord.base.errors import KoordError


class P2PLink(msgspec.Struct, rename="camel"):
    """Devices that one reaches without the host.

    Attributes:
        peer_minor: their minors, with commas between.
        type: of the link, such as ``NVLink`` or ``HCCS``.
    """

    peer_minor: str | int = ""
    type: str = ""


class XPUTopology(msgspec.Struct, rename="camel"):
    """Where a device sits; tools write numbers as numbers or as text."""

    p2p_links: list[P2PLink] | None = msgspec.field(name="p2pLinks", default=None)
    must_honor_partition: bool = False
    socket_id: str | int = msgspec.field(name="socketID", default="")
    node_id: str | int = msgspec.field(name="nodeID", default="")
    pcie_id: str = msgspec.field(name="pcieID", default="")
    bus_id: str = msgspec.field(name="busID", default="")


class XPUStatus(msgspec.Struct, rename="camel"):
    """Health as its own tool sees it."""

    healthy: bool = False
    err_code: str = ""
    err_message: str = ""


class XPUDevice(msgspec.Struct, rename="camel"):
    """One accelerator of a device-infos file."""

    vendor: str = ""
    model: str = ""
    uuid: str = ""
    minor: str | int = ""
    resources: dict[str, str | int] = msgspec.field(default_factory=dict)
    topology: XPUTopology | None = None
    status: XPUStatus | None = None


_DECODER = msgspec.json.Decoder(list[XPUDevice])


def read_xpus(directory: str) -> list[XPUDevice]:
    """All devices of all regular files of the directory, by file name.

    Raises:
        KoordError: one file is unreadable or malformed: half a list would take devices away.
    """
    devices: list[XPUDevice] = []
    for name in files.names(directory):
        path = f"{directory}/{name}"
        if _is_file(path):
            devices += parse_xpus(files.read_bytes(path), path)
    return devices


def parse_xpus(text: bytes, path: str) -> list[XPUDevice]:
    """The devices of one file.

    Raises:
        KoordError: it is no array of devices; names the place.
    """
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise KoordError(path, "", str(error), "an array of devices") from None


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
