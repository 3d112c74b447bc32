# SPDX-License-Identifier: Apache-2.0
"""Run in the guest: what kind of machine it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from koord.kernels.cgroup import Hierarchy
from koord.kernels.topology import Topology

_CLOCK = Path("/sys/devices/system/clocksource/clocksource0")


def look() -> dict[str, Any]:
    """Kernel, controllers, and the topology as koord reads it."""
    topology = Topology.from_sysfs()
    root = Path("/sys/fs/cgroup")
    return {
        "release": os.uname().release,
        "version": int(Hierarchy(root).version),
        "controllers": (root / "cgroup.controllers").read_text(encoding="utf-8").split(),
        "pressure": sorted(p.name for p in Path("/proc/pressure").iterdir()),
        "clock": (_CLOCK / "current_clocksource").read_text(encoding="ascii").strip(),
        "summary": topology.summary()._asdict(),
    }


if __name__ == "__main__":
    Path(os.environ["KOORD_RESULT"]).write_text(json.dumps(look()), encoding="utf-8")
