# SPDX-License-Identifier: Apache-2.0
"""Open files of this process, for tests that nothing is left open."""

from __future__ import annotations

import gc
from pathlib import Path


def descriptors() -> int:
    """How many this process has open, without those of what other tests left to the collector."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
