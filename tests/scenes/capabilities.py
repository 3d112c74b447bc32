# SPDX-License-Identifier: Apache-2.0
"""Capabilities of a process, as a container has them: no other ones, and no way to more.

Rule: capabilities(7).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from koord.base.errors import KoordError

VALUES = Path(__file__).resolve().parents[2] / "deploy/charts/koord/values.yaml"
# By number, as <linux/capability.h> has them.
_WORDS = """
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE
AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ
PERFMON BPF CHECKPOINT_RESTORE
"""
NAMES = tuple(_WORDS.split())
_BOUNDING_DROP, _NO_NEW_PRIVILEGES = 24, 38
_VERSION_3 = 0x20080522


def of_chart() -> list[str]:
    """Those of koordlet where it is not privileged."""
    values = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    found: list[str] = values["koordlet"]["capabilities"]
    return found


def permitted() -> set[str]:
    """Those of the calling process: root may lack some, itself in a container."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (mask,) = (int(line.split()[1], 16) for line in status.splitlines() if line[:7] == "CapPrm:")
    return {name for number, name in enumerate(NAMES) if mask >> number & 1}


def confine(names: Iterable[str]) -> None:
    """Leaves the calling process these alone, of those that it has, as a container's list does.

    Raises:
        OSError: the kernel refuses.
    """
    held = {NAMES.index(name) for name in permitted().intersection(names)}
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(len(NAMES)):
        if number not in held:
            _check(libc.prctl(_BOUNDING_DROP, number, 0, 0, 0))
    mask = sum(1 << number for number in held)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Effective and permitted; nothing to hand on to what is executed.
    _check(libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)))
    _check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def call_confined(names: Iterable[str], act: Callable[[], Any]) -> str:
    """What a process with these capabilities alone says of an act: its result, or the refusal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            confine(names)
            said = str(act())
        except (KoordError, OSError) as error:
            said = f"refused: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
