# SPDX-License-Identifier: Apache-2.0
"""Sets of logical CPUs, and the texts Linux writes them in.

:class:`CPUSet` is an immutable set of ids from 0 to :data:`MAX_ID` with the operators of a Python
set. It reads cpu lists in two ways: :meth:`CPUSet.parse` is strict, for what a person types;
:meth:`CPUSet.parse_wire` is lenient, for annotations and kernel files that other programs wrote.
``str()`` gives the canonical list that cpuset(7) describes.
"""

from __future__ import annotations

from koord._native.wire import CPUSet

__all__ = ["MAX_ID", "CPUSet"]

MAX_ID = 8191
"""The highest CPU id; Linux is built for at most 8,192 CPUs."""
