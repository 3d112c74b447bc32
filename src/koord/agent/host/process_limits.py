# SPDX-License-Identifier: Apache-2.0
"""What this process may hold: open files, and memory that it does not use."""

from __future__ import annotations

import ctypes
import resource

from koord.base import log

_LOG = log.get("agent.host")
_KIB = 1 << 10
KEPT_MAX = 16_384
_SPARE_DESCRIPTORS = 512
# mallopt(3). Without them the first large list that is freed teaches glibc to keep as much forever.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def raise_descriptors() -> int:
    """Lifts the soft limit on open files to the hard one; gives the soft limit from now on.

    Collectors keep a descriptor a file and a cgroup; the usual soft limit of 1024 is less than a
    node of a hundred pods needs, and every file would then be opened anew each second.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # a hard limit above what the kernel allows
        _LOG.warning("files are opened anew each round", extra=log.fields(reason=error))
        return soft
    return hard


def kept_descriptors() -> int:
    """How many files may stay open because they are read again and again."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = KEPT_MAX if soft == resource.RLIM_INFINITY else soft - _SPARE_DESCRIPTORS
    return max(0, min(KEPT_MAX, allowed))


def keep_little() -> bool:
    """Tells the C library to give memory back; False where it is not glibc's, which keeps little.

    An answer of the kubelet is half a megabyte and gone at once, every ten seconds.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    wanted = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, 64 * _KIB), (_TRIM_THRESHOLD, 64 * _KIB))
    answers = [mallopt(option, value) for option, value in wanted]
    return all(answers)
