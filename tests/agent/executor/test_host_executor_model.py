# SPDX-License-Identifier: Apache-2.0
"""Owners, faults, edits by hand, vanishing directories and restarts, in any order."""

from __future__ import annotations

import contextlib
import errno
import random
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from koord.agent.executor.claim import Claim, Layer
from koord.base import faults
from koord.base.faults import FaultPlan, FaultRule
from tests.agent.executor.rig import (
    BURST,
    CPUS,
    MEMORY,
    QUOTA,
    SHARES,
    Killed,
    Rig,
    quick_directory,
)
from tests.models import arbiter as model

PODS = {"k/p": ["k/p/c", "k/p/d"], "k/q": ["k/q/c"]}
TREE = ["k", *(d for pod, inner in PODS.items() for d in (pod, *inner))]
OWNERS = ["BatchResource", "CPUSetAllocator", "CPUNormalization", "CPUBurst", "CPUSuppress"]
RESOURCES = (QUOTA, BURST, CPUS, MEMORY, SHARES)
ERRORS = [errno.EBUSY, errno.EINVAL, errno.ENOSPC, errno.EIO]
WAIT = 61.0


def _value(resource: str, dice: random.Random) -> str | int:
    if resource == CPUS:
        first = dice.randrange(8)
        return f"{first}-{dice.randrange(first, 8)}"
    return dice.choice([2, 3000, 20_000, 50_000, 100_000, 250_000])


class Machine(RuleBasedStateMachine):
    """A tree of cgroups, its kernel and the owners' wishes."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.place = quick_directory()
        self.rig = Rig(Path(self.place.name) / "state", TREE)
        self.originals = self.values()
        self.wanted: dict[tuple[str, str], list[Claim]] = {}
        self.vanished: set[str] = set()
        for owner in OWNERS[:3]:
            self.say(owner, "s", self.some_claims(random.Random(seed + len(owner))))

    def values(self) -> dict[tuple[str, str], Any]:
        found: dict[tuple[str, str], Any] = {}
        for directory, resource in self.rig.kernel.values:
            if resource == CPUS:
                found[resource, directory] = model.cpus_of(self.rig.kernel.values[directory, CPUS])
            elif resource in RESOURCES:
                found[resource, directory] = self.rig.kernel.number(resource, directory)
        return found

    def alive(self) -> list[str]:
        return [d for d in TREE if (d, QUOTA) in self.rig.kernel.values]

    def absent(self) -> set[str]:
        return set(TREE) - set(self.alive())

    def state_all(self) -> None:
        for (owner, scope), claims in self.wanted.items():
            self.rig.executor.state(owner, scope, claims)

    # Claims are made for a directory and everything in it, as the kernel demands of whoever
    # narrows a parent.
    def some_claims(self, dice: random.Random) -> list[Claim]:
        claims = []
        for resource in dice.sample(RESOURCES, 2):
            top = dice.choice(TREE)
            layer = dice.choice([Layer.SET, Layer.SET, Layer.RAISE, Layer.CAP])
            for directory in TREE:
                if directory == top or directory.startswith(f"{top}/"):
                    claims.append(Claim(resource, directory, _value(resource, dice), "r", layer))
                    if resource == QUOTA and dice.random() < 0.3:
                        claims.append(Claim(QUOTA, directory, 1.5, "fast", Layer.SCALE))
        return claims

    def say(self, owner: str, scope: str, claims: list[Claim]) -> None:
        self.wanted[owner, scope] = claims
        self.rig.executor.state(owner, scope, claims)

    @rule(
        owner=st.sampled_from(OWNERS), scope=st.sampled_from(["s", "t"]),
        dice=st.randoms(use_true_random=False),
    )  # fmt: skip
    def want(self, owner: str, scope: str, dice: random.Random) -> None:
        self.say(owner, scope, self.some_claims(random.Random(dice.getrandbits(32))))

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        owner, scope = data.draw(st.sampled_from(sorted(self.wanted)))
        del self.wanted[owner, scope]
        self.rig.executor.withdraw(owner, scope)

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0, 61.0]))
    def settle(self, seconds: float) -> None:
        self.rig.settle(seconds)

    @rule(number=st.sampled_from(ERRORS), seed=st.integers(0, 99), seconds=st.integers(0, 3))
    def settle_badly(self, number: int, seed: int, seconds: int) -> None:
        dice = random.Random(seed)

        def refuse() -> None:
            if dice.random() < 0.4:
                raise OSError(number, "refused")

        self.rig.kernel.before_write = refuse
        error = OSError(errno.ENOSPC, "no space left")
        points = ("executor.journal.sync", "executor.read_back", "executor.first_look")
        plan = FaultPlan(seed, {name: FaultRule(0.3, error) for name in points})
        with faults.inject(plan):
            self.rig.settle(seconds)
        self.rig.kernel.before_write = lambda: None

    @rule(writes=st.integers(0, 6))
    def kill(self, writes: int) -> None:
        left = [writes]

        def count() -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        self.rig.kernel.before_write = count
        with contextlib.suppress(Killed):
            self.rig.settle()
        self.rig.kernel.before_write = lambda: None
        self.rig.start()
        self.state_all()

    @rule(data=st.data())
    def edit_by_hand(self, data: st.DataObject) -> None:
        claimed = sorted(
            {(c.resource, c.directory) for claims in self.wanted.values() for c in claims}
        )
        known = [(r, d) for r, d in claimed if (d, r) in self.rig.kernel.values]
        settled = [t[:2] for t in self.rig.executor._journal.targets()]
        known = [row for row in known if row in settled]
        if not known:
            return
        resource, directory = data.draw(st.sampled_from(known))
        text = "0-7" if resource == CPUS else data.draw(st.sampled_from(["7", "5000", "70000"]))
        try:
            self.rig.kernel.put(resource, directory, text)
        except OSError:
            return

    @precondition(lambda self: not self.vanished)
    @rule(pod=st.sampled_from(sorted(PODS)))
    def vanish(self, pod: str) -> None:
        self.vanished.add(pod)
        self.rig.kernel.remove(pod)

    @invariant()
    def no_parent_is_narrower(self) -> None:
        if not hasattr(self, "rig"):
            return
        assert self.rig.kernel.quotas_nest()
        for directory in self.alive():
            above = directory.rpartition("/")[0]
            held = self.rig.kernel.values
            assert model.cpus_of(held[directory, CPUS]) <= model.cpus_of(held[above, CPUS])
            quota, burst = int(held[directory, QUOTA]), int(held[directory, BURST])
            assert quota < 0 or burst <= quota
            assert quota < 0 or quota >= 1000

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        for _ in range(4):
            self.rig.settle(WAIT)
        rows: dict[Any, dict[Any, Any]] = {}
        for (owner, scope), claims in self.wanted.items():
            for i, claim in enumerate(claims):
                value: Any = claim.value
                if claim.resource == CPUS:
                    value = model.cpus_of(str(value))
                elif claim.resource == MEMORY:
                    value -= value % 4096
                key = (owner, f"{scope}{i:04}", claim.layer.name)
                rows.setdefault((claim.resource, claim.directory), {})[key] = value
        assert not [f for f in self.rig.executor.failures() if f.target.directory in self.absent()]
        found = self.values()
        for resource in RESOURCES:
            for directory in self.alive():
                expected = model.final(resource, directory, rows, self.originals)
                assert found[resource, directory] == expected, (resource, directory)
        assert self.rig.executor.give_all_back() == []
        left = {key: self.originals[key] for key in found}
        assert self.values() == left
        assert not self.rig.executor._journal.targets()
        self.place.cleanup()


TestExecutor = Machine.TestCase
TestExecutor.settings = settings(deadline=None, stateful_step_count=25)
