# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel can keep classes from sharing a core: asked of the kernel itself."""

from __future__ import annotations

import ctypes
import errno
import os

_PR_SCHED_CORE = 62
_GET = 0
_THREAD = 0


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
