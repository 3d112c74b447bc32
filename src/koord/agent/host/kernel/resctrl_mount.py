# SPDX-License-Identifier: Apache-2.0
"""Mounts resctrl where the processor can and nobody has.

Rule: docs/reference/cgroup.md#resctrl-mount.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from koord.agent.host import files
from koord.agent.host.kernel import resctrl
from koord.agent.host.procfs.cpuinfo import read_cpu_info
from koord.base import faults, log
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.host.roots import HostRoots

    Mounter = Callable[[str, str, int], None]

TYPE = "resctrl"
MS_RELATIME = 1 << 21
_LOG = log.get("agent.resctrl")


def mount(kind: str, target: str, flags: int) -> None:
    """mount(2) of a file system that has no device.

    Raises:
        OSError: the kernel's refusal.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    words = (kind.encode(), os.fsencode(target), kind.encode())
    if libc.mount(*words, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def mount_resctrl(roots: HostRoots, mounter: Mounter = mount) -> bool:
    """Sees to it that resctrl is mounted.

    Args:
        roots: of the host.
        mounter: called with type, directory and flags.

    Returns:
        Whether it was mounted by this call; False where it was before, or the processor lacks it.

    Raises:
        KoordError: the kernel refuses, or what is mounted then is not resctrl.
    """
    if not is_to_be_mounted(roots):
        return False
    try:
        faults.point("host.mount")
        mounter(TYPE, roots.resctrl, MS_RELATIME)
    except OSError as error:
        why = f"a resctrl file system: {error.strerror}"
        raise KoordError(roots.resctrl, "mount", TYPE, why, Code.UNSUPPORTED) from None
    if not (files.exists(f"{roots.resctrl}/info/L3/cbm_mask") and _has_schemata(roots.resctrl)):
        expected = "info/L3/cbm_mask and schemata once it is mounted"
        raise KoordError(roots.resctrl, "mount", TYPE, expected, Code.UNSUPPORTED)
    return True


def is_to_be_mounted(roots: HostRoots) -> bool:
    """Whether resctrl is not mounted and the processor has what it is for."""
    return read_cpu_info(roots).controls_cache and not is_mounted(roots.resctrl)


def mount_quietly(roots: HostRoots, mounter: Mounter = mount) -> None:
    """Mounts, or says in one line why not; the agent does without."""
    try:
        if mount_resctrl(roots, mounter):
            _LOG.info("resctrl mounted", extra=log.fields(directory=roots.resctrl))
    except KoordError as error:
        _LOG.warning("resctrl not mounted", extra=log.fields(reason=error))


def is_mounted(directory: str) -> bool:
    """Whether the cache can be given out, or the root group has lines of which all make sense."""
    return files.exists(f"{directory}/info/L3/cbm_mask") or _has_schemata(directory)


def _has_schemata(directory: str) -> bool:
    try:
        found = resctrl.read_schemata(directory)
    except KoordError:
        return False
    tables = (found.l3, found.mb)
    return all(table and min(table.values()) > 0 for table in tables)
