# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel can keep classes from sharing a core: asked of the kernel itself.

Rule: docs/reference/hooks.md#kernel-features. Some vendors' kernels have a switch: the sysctl
``kernel.sched_core``, older ones a feature of the scheduler. While it is off they may refuse to
tell cookies.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING

from koord.agent.host import files
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import parse_sched_features

if TYPE_CHECKING:
    from koord.agent.host.roots import HostRoots

FEATURE = "CORE_SCHED"
"""The switch among the features of the scheduler."""

_PR_SCHED_CORE = 62
_GET = 0
_THREAD = 0


def missing(roots: HostRoots) -> str:
    """Nothing where there is core scheduling or a switch that turns it on, else why there is none.

    Args:
        roots: where the kernel's files are.
    """
    if files.exists(f"{roots.proc}/sys/kernel/sched_core"):
        return ""
    return "" if scheduler_feature(roots, FEATURE) is not None else why_not()


def scheduler_feature(roots: HostRoots, name: str) -> bool | None:
    """Whether a feature of the scheduler is on; None where the kernel does not list it."""
    try:
        text = files.read_text(f"{roots.sys}/kernel/debug/sched_features")
    except KoordError:
        return None
    listed, _ = parse_sched_features(text)
    return listed.get(name)


def why_not() -> str:
    """Nothing where the kernel tells this thread's core scheduling cookie, else why it does not.

    See Linux Documentation/admin-guide/hw-vuln/core-scheduling.rst.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    cookie = ctypes.c_uint64()
    if libc.prctl(_PR_SCHED_CORE, _GET, 0, _THREAD, ctypes.byref(cookie)) == 0:
        return ""
    code = ctypes.get_errno()
    if code == errno.EINVAL:
        return "the kernel was built without core scheduling"
    if code == errno.ENODEV:
        return "no core has a second thread switched on"
    return f"prctl(PR_SCHED_CORE): {os.strerror(code)}"
