# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.hostile.endurance MINUTES [PLACE] [SEED]``: one cluster, attacked for so long.

Prints memory and waits after every span, each with a seed of its own. Memory must not grow from the
second half to the end; a program that ends, or a Lease that changes hands, ends it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.hostile.neighbour import Neighbour, p99
from tests.hostile.places import running_place
from tests.hostile.test_neighbours import attacked

_SPAN_SECONDS = 30.0
# How much more than the most of the third quarter the last one may have.
_SLACK = 1.1


def main(arguments: list[str]) -> None:
    """See the head of this file."""
    minutes, name = float(arguments[0]), (arguments[1:] or ["embedded"])[0]
    seed = int(arguments[2]) if len(arguments) > 2 else time.time_ns() % 2**31
    memory: list[int] = []
    with tempfile.TemporaryDirectory() as folder, running_place(name, Path(folder)) as place:
        neighbour = Neighbour(place.api("alice"), place)
        neighbour.start()
        leases, began = place.leases(), time.monotonic()
        while (passed := (time.monotonic() - began) / 60) < minutes:
            waits = attacked(place, neighbour, seed + len(memory), _SPAN_SECONDS)
            memory.append(place.resident_bytes() >> 20)
            place.check()
            told = f"{p99(waits.waits) * 1000:.0f} ms of {len(waits.waits)} bindings"
            print(f"minute {passed:.1f}: {memory[-1]} MiB, p99 {told}", flush=True)
            assert place.leases() == leases
        neighbour.stop()
        neighbour.check_kept()
    half, last = len(memory) // 2, len(memory) * 3 // 4
    print(f"most by halves {max(memory[:half])}, {max(memory[half:])} MiB", flush=True)
    assert max(memory[last:]) <= _SLACK * max(memory[half:last]), memory


if __name__ == "__main__":
    main(sys.argv[1:])
