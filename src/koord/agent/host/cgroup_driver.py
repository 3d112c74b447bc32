# SPDX-License-Identifier: Apache-2.0
"""Which cgroup driver the kubelet uses: told by directories, else by the kubelet's own settings.

Rule: docs/reference/cgroup.md#driver.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from koord.agent.host import files
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.kernels.cgroup import Hierarchy

_LISTENING = "0A"
_KEY = re.compile(r"""^\s*["']?cgroupDriver["']?\s*:\s*["']?(\w+)""", re.MULTILINE)


def detect(hierarchy: Hierarchy, probe: Callable[[], Driver] | None = None) -> Driver:
    """``kubepods.slice`` means systemd, ``kubepods`` cgroupfs; else the probe says, else systemd.

    Args:
        hierarchy: the tree.
        probe: asks the kubelet, say :func:`ask_kubelet` bound to its port; a KoordError of it is
            "cannot tell".
    """
    top = hierarchy.path if hierarchy.version == Version.V2 else f"{hierarchy.path}/cpu"
    if files.exists(f"{top}/kubepods.slice"):
        return Driver.SYSTEMD
    if files.exists(f"{top}/kubepods"):
        return Driver.CGROUPFS
    try:
        return Driver.SYSTEMD if probe is None else probe()
    except KoordError:
        return Driver.SYSTEMD


def ask_kubelet(proc: str, port: int) -> Driver:
    """The driver of the process that listens on the kubelet's port: its flag, else its config file.

    Raises:
        KoordError: nobody listens there, or what it was started with cannot be read.
    """
    pid = _listener(proc, port)
    text = files.read_bytes(f"{proc}/{pid}/cmdline").decode("utf-8", "surrogateescape")
    arguments = text.split("\0")
    if flag := _flag(arguments, "--cgroup-driver"):
        return _driver(flag, f"{proc}/{pid}/cmdline")
    config = _flag(arguments, "--config")
    if not config:
        return Driver.CGROUPFS
    # Both are looked up in the process's own view of files: it may live in another mount namespace.
    path = config if config.startswith("/") else f"/{files.link(f'{proc}/{pid}/cwd')}/{config}"
    found = _KEY.search(files.read_text(f"{proc}/{pid}/root{path}"))
    return _driver(found[1], path) if found else Driver.CGROUPFS


def _driver(name: str, where: str) -> Driver:
    try:
        return Driver(name)
    except ValueError:
        expected = " or ".join(Driver)
        raise KoordError(where, "cgroupDriver", name, expected) from None


def _flag(arguments: Iterable[str], name: str) -> str:
    """The last value given, as ``--name=value`` or ``--name value``."""
    value, takes_next = "", False
    for argument in arguments:
        if takes_next:
            value = argument
        takes_next = argument == name
        if argument.startswith(f"{name}="):
            value = argument.partition("=")[2]
    return value


def _listener(proc: str, port: int) -> int:
    inodes = {inode for table in ("tcp6", "tcp") for inode in _listening(proc, table, port)}
    sockets = {f"socket:[{inode}]" for inode in inodes}
    for pid in (name for name in files.names(proc) if name.isdigit()) if sockets else ():
        try:
            held = [_target(f"{proc}/{pid}/fd/{fd}") for fd in files.names(f"{proc}/{pid}/fd")]
        except KoordError:
            continue  # not ours to look into, or ended meanwhile
        if sockets.intersection(held):
            return int(pid)
    raise KoordError(f"{proc}/net/tcp", "port", port, "one that the kubelet listens on")


def _listening(proc: str, table: str, port: int) -> list[str]:
    path = f"{proc}/net/{table}"
    if not files.exists(path):
        return []
    rows = [line.split() for line in files.read_text(path).splitlines()[1:]]
    return [
        row[9]
        for row in rows
        if len(row) > 9 and row[3] == _LISTENING and row[1].endswith(f":{port:04X}")
    ]


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 (a name such as socket:[123] is no path)
    except OSError:
        return ""
