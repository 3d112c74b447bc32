# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.hostile.endurance MINUTES [PLACE] [SEED]``: one cluster, attacked for so long.

First a tenant fills the bounded tables (docs/limits.md) through the front door: until they are full
memory rises as it should, and that takes some five minutes. Memory and waits are printed after
every span, each with a seed of its own; how full the tables are at the beginning, now and then and
at the end. Once they were full, memory must not grow from the third quarter of the spans to the
last; a program that ends, or a Lease that changes hands, ends it. A subject of `make soak`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.hostile.attacks import Tenant, shared_applies
from tests.hostile.fills import FILLS_FILE, told
from tests.hostile.neighbour import NAMESPACE, Neighbour, Waits, p99
from tests.hostile.places import Place, running_place
from tests.hostile.test_neighbours import FACTORS, WORK_SHARES, attacked, factor

_SPAN_SECONDS = 30.0
# A span of so long in which nobody attacks comes before each so many.
_QUIET_SECONDS, _QUIET_EVERY = 5.0, 4
_SHOWN_EVERY = 20
# How much more than the most of the third quarter the last one may have.
_SLACK = 1.1
_FILLERS, _PODS_AT_ONCE, _FILL_SECONDS, _FULL = 3, 300, 300.0, 0.97
# Those that pods fill which are new in everything, and that take by far the most, by their names.
_FILLED = ("pods of ", "attempt_history", "pod_term_cache")
_LARGE_BYTES = 30_000


def fill(place: Place, seed: int, over: Callable[[], bool]) -> bool:
    """Pods that share nothing come and go until the tables of them are full; whether they are."""
    port, tls, _ = place.address()
    tenants = [
        Tenant(seed + n, lambda: place.api("filler"), (port, tls), f"filler-{n}")
        for n in range(_FILLERS)
    ]
    end, path, pods = time.monotonic() + _FILL_SECONDS, place.folder / FILLS_FILE, 0
    with ThreadPoolExecutor(_FILLERS) as threads:
        while time.monotonic() < end and not over() and not _full(told(path)):
            list(threads.map(_pods_of_their_own, tenants))
            pods += _FILLERS * _PODS_AT_ONCE
            print(f"{pods} pods: {place.resident_bytes() >> 20} MiB, {_shown(path)}", flush=True)
    for tenant in tenants:
        tenant.close()
    return _full(told(path))


def _full(fills: dict[str, float]) -> bool:
    parts = [part for name, part in fills.items() if name.startswith(_FILLED)]
    return bool(parts) and min(parts) >= _FULL


def _pods_of_their_own(tenant: Tenant) -> None:
    """Each new in labels and containers, every other one bound, now and then one that is large."""
    shared_applies(tenant)
    for number in range(_PODS_AT_ONCE):
        words = tenant.words(40)
        container = {"name": words[0], "image": words[1], "resources": {"requests": {"cpu": "1m"}}}
        tenant.pod(
            {"containers": [container], "nodeSelector": {words[2]: words[3]} if number % 2 else {}},
            labels=dict(zip(words[6::2], words[7::2], strict=True)),
            annotations={words[4]: "x" * (0 if number % 20 else _LARGE_BYTES)},
        )


def _shown(path: Path) -> str:
    fills = sorted(told(path).items())
    return ", ".join(f"{name} {part:.0%}" for name, part in fills) or "no table tells"


def check_endurance(name: str, seed: int, over: Callable[[], bool]) -> None:
    """One cluster is attacked until time is over, for one span at least.

    Args:
        name: of the place.
        seed: of everything drawn.
        over: whether time is; what it takes to fill the tables is part of it.

    Raises:
        AssertionError: see the head of this file.
    """
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, running_place(name, Path(folder)) as place:
        print(f"{place.resident_bytes() >> 20} MiB at first", flush=True)
        full = name == "embedded" and fill(place, seed, over)
        neighbour = Neighbour(place.tenant(NAMESPACE).api("alice"), place, binds=name == "real")
        neighbour.start()
        try:
            memory, quiet, waits = endure(place, neighbour, seed, over)
        finally:
            neighbour.stop()
        neighbour.check_kept()
        print(f"tables at the end: {_shown(place.folder / FILLS_FILE)}")
    found = factor(quiet, waits, WORK_SHARES[name])
    print(f"{len(waits.waits)} bindings attacked, {len(quiet.waits)} quiet: factor {found:.1f}")
    check_memory(memory, full)
    assert found <= FACTORS[name]


def check_memory(memory: list[int], full: bool) -> None:
    """The last quarter has no more than the one before; not judged while tables fill."""
    quarters = [memory[len(memory) * n // 4 : len(memory) * (n + 1) // 4] for n in range(4)]
    if not full or not all(quarters):
        print(f"memory {memory} MiB, not judged: tables not full, or too few spans", flush=True)
        return
    most = [max(each) for each in quarters]
    print(f"most by quarters {most} MiB", flush=True)
    assert most[3] <= _SLACK * most[2], memory


def endure(
    place: Place, neighbour: Neighbour, seed: int, over: Callable[[], bool]
) -> tuple[list[int], Waits, Waits]:
    """Attacks until time is over; memory after each span in MiB, waits without and with attacks."""
    memory: list[int] = []
    quiet, waits = Waits(), Waits()
    leases, began = place.leases(), time.monotonic()
    while not memory or not over():
        if len(memory) % _SHOWN_EVERY == 0:
            print(f"tables: {_shown(place.folder / FILLS_FILE)}", flush=True)
        if len(memory) % _QUIET_EVERY == 0:
            quiet.add(neighbour.span(partial(time.sleep, _QUIET_SECONDS)))
        seen = attacked(place, neighbour, seed + len(memory), _SPAN_SECONDS)
        waits.add(seen)
        memory.append(place.resident_bytes() >> 20)
        place.check()
        passed = (time.monotonic() - began) / 60
        worst = f"p99 {p99(seen.waits) * 1000:.0f} ms of {len(seen.waits)} bindings"
        times = p99(seen.waits) / p99(quiet.waits)
        print(f"minute {passed:.1f}: {memory[-1]} MiB, {worst}, {times:.1f} times", flush=True)
        assert place.leases() == leases
    return memory, quiet, waits


def main(arguments: list[str]) -> None:
    """See the head of this file."""
    minutes, name = float(arguments[0]), (arguments[1:] or ["embedded"])[0]
    seed = int(arguments[2]) if len(arguments) > 2 else time.time_ns() % 2**31
    end = time.monotonic() + 60 * minutes
    check_endurance(name, seed, lambda: time.monotonic() >= end)


if __name__ == "__main__":
    main(sys.argv[1:])
