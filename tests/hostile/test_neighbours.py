# SPDX-License-Identifier: Apache-2.0
"""While one tenant attacks, another's pods are bound as before, and nothing ends or grows.

The seed is printed; KOORD_HOSTILE_SEED takes another, KOORD_HOSTILE_SECONDS another length.
Rule: docs/limits.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.hostile.neighbour import NAMESPACE, Neighbour, Waits, p99
from tests.hostile.places import Place, running_place
from tests.hostile.probed import longest

SEED = int(os.environ.get("KOORD_HOSTILE_SEED", "1"))
SECONDS = float(os.environ.get("KOORD_HOSTILE_SECONDS", "8"))
QUIET_SECONDS = 5.0
# However slow the machine, within which all attacks have been made once.
ATTACK_PATIENCE_SECONDS = 300.0
# How many times as long as without the attack the worst but one of a hundred may wait. Other
# programs use the machine too and one span has a hundred pods, so two pairs of spans count
# together, one quiet and one attacked each, and more where they are not enough to tell.
# Measured are 1.5 to 2.4 times in `koord up`. On a real control plane of two cores the API server
# alone makes a client wait 3 to 12 times as long that binds its pods itself, although tenants have
# few seats (deploy/policies): one request may be most of a second of its CPU (a patch of a pod of
# 5,000 containers: 0.6), which no priority level takes from it again. Pods that koord binds wait
# 0.6 to 2.4 times as much longer, and that counts. What stands above that is for a machine that
# others use.
FACTORS = {"embedded": 3.0, "real": 3.0}
# How many times more than that may be worked meanwhile, also by the thread beside the loop, for
# which nobody waits: and of a slow API server longer for each pod.
WORK_SHARES = {"embedded": 1.5, "real": 5.0}
PAIRS = 4
# How long one request may hold the loop of `koord up`, and anything else: an attempt of an
# oversized pod, or the look for garbage in what has come in ten seconds; as parts of the time in
# which NumPy sorts two million numbers in the same run, some 125 ms. That of a request is 50 ms.
# Measured are 15 to 27 ms, and 17 to 61.
HOLDS = {"request": 0.4, "other work": 1.0}
# What attacks may leave in caches that are bounded by bytes, in all informers of one process, and
# in the server's history: 60 to 200 MiB are measured, more the more attacks there is time for. That
# the same again adds ever less is test_memory_afterwards'.
GROWTH_BYTES = 500 << 20
# Attackers are on machines of their own: theirs is not the CPU that the others are short of.
_NICE = "5"
_ROOT = Path(__file__).resolve().parents[2]
BOTH = ["embedded", pytest.param("real", marks=pytest.mark.real)]


def attacked(place: Place, neighbour: Neighbour, seed: int, seconds: float) -> Waits:
    """What the neighbour sees meanwhile; prints which attacks there were."""
    command = [sys.executable, "-m", "tests.hostile.attacker"]
    reached = place.tenant(f"mallory-{seed}")
    words = [str(place.folder), str(reached.kubeconfig), str(seed), str(seconds), place.name]
    with subprocess.Popen(
        ["nice", "-n", _NICE, *command, *words], stdout=subprocess.PIPE, cwd=_ROOT
    ) as attacker:
        waits = neighbour.span(lambda: attacker.wait(ATTACK_PATIENCE_SECONDS + seconds))
        output, _ = attacker.communicate()
    assert attacker.returncode == 0
    print(f"seed {seed}: {json.loads(output)}")
    return waits


def check_neighbour(name: str, folder: Path, seed: int, seconds: float) -> None:
    """One tenant attacks twice, and again where that is not enough to tell."""
    with running_place(name, folder) as place:
        neighbour = Neighbour(place.tenant(NAMESPACE).api("alice"), place, binds=name == "real")
        neighbour.start()
        neighbour.span(partial(time.sleep, 2.0))
        since, leases, memory = time.monotonic(), place.leases(), [place.resident_bytes()]
        quiet, waits, found = Waits(), Waits(), 0.0
        for number in range(PAIRS):
            quiet.add(neighbour.span(partial(time.sleep, QUIET_SECONDS)))
            waits.add(attacked(place, neighbour, seed + number, seconds))
            memory.append(place.resident_bytes())
            place.check()
            found = factor(quiet, waits, WORK_SHARES[name])
            if number and found <= FACTORS[name]:
                break
        neighbour.stop()
        neighbour.check_kept()
        print(f"worst factor {found:.1f}; memory {[each >> 20 for each in memory]} MiB")
        assert place.leases() == leases
        assert found <= FACTORS[name]
        if name == "embedded":
            check_holds(place.holds, since)
        assert max(memory[1:3]) <= memory[0] + GROWTH_BYTES


def check_holds(path: Path, since: float) -> None:
    """Nothing held the loop for long; prints what did for longest."""
    numbers = np.random.default_rng(1).random(2_000_000)
    begun = time.thread_time()
    np.sort(numbers)
    measure = time.thread_time() - begun
    for name, part in HOLDS.items():
        seconds, whose = longest(path, since, requests=name == "request")
        print(f"longest {name} {seconds * 1000:.0f} ms of {measure * 1000:.0f}: {whose}")
        assert seconds <= part * measure, whose


def factor(quiet: Waits, waits: Waits, work_share: float) -> float:
    """How many times as long bindings wait, or answers; what is worked counts by its share.

    Quiet answers take a millisecond or two, which is no measure of anything: theirs are compared
    with bindings. Where the neighbour binds pods of its own, what counts is by how much more pods
    that koord binds wait than those do: the rest is the API server's.
    """
    pairs = {
        "bindings": (p99(quiet.waits), p99(waits.waits)),
        "answers": (p99(quiet.waits), p99(waits.answers)),
        "work": (p99(quiet.work), p99(waits.work)),
    }
    shown = (f"{name} {a * 1000:.0f} and {b * 1000:.0f} ms" for name, (a, b) in pairs.items())
    on_the_clock = f"{p99(quiet.bindings) * 1000:.0f} and {p99(waits.bindings) * 1000:.0f}"
    print(f"p99 quiet and attacked: {', '.join(shown)}; bindings on the clock {on_the_clock}")
    shares = {name: b / a for name, (a, b) in pairs.items()}
    if quiet.bare:
        quick, slow = p99(quiet.bare), p99(waits.bare)
        alone = max(1.0, slow / quick)
        told = f"{quick * 1000:.0f} and {slow * 1000:.0f} ms, {alone:.1f} times"
        print(f"the API server alone {told}; bindings {shares['bindings']:.1f} times")
        shares["bindings"], shares["answers"] = (
            shares["bindings"] / alone,
            shares["answers"] / alone,
        )
    return max(shares["bindings"], shares["answers"], shares["work"] / work_share)


@pytest.mark.parametrize("name", BOTH)
def test_a_neighbour_is_served_while_a_tenant_attacks(name: str, tmp_path: Path) -> None:
    check_neighbour(name, tmp_path, SEED, SECONDS)
