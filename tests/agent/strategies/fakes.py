# SPDX-License-Identifier: Apache-2.0
"""In-memory stand-ins for what strategies look at and act through."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from koord.agent.executor.claim import Claim, Layer
from koord.agent.executor.target import Target
from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.host.kernel.features import Features
from koord.agent.host.machine import Machine
from koord.agent.host.roots import HostRoots
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.reader import SeriesRows, Window
from koord.agent.states.pod_state import PodState
from koord.agent.strategies.eviction.evictor import EvictionState
from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver
from koord.kernels.cpuset import CPUSet
from koord.kernels.topology import Topology


class FakeReader:
    """Samples by kind and labels, each a (millisecond, value)."""

    def __init__(self, interval_seconds: float = 1.0) -> None:
        self.samples: dict[MetricKind, dict[tuple[str, ...], list[tuple[int, float]]]] = {}
        self.interval_seconds = interval_seconds

    def add(self, kind: MetricKind, at_ms: int, value: float, *labels: str) -> None:
        self.samples.setdefault(kind, {}).setdefault(labels, []).append((at_ms, value))

    def last_window(self, now_ms: int) -> Window:
        return Window(now_ms - int(2000 * self.interval_seconds), now_ms)

    def read(
        self,
        kind: MetricKind,
        window: Window,
        percentiles: Sequence[float] = (),
        match: Sequence[str | None] = (),
    ) -> SeriesRows:
        found = []
        for labels, points in sorted(self.samples.get(kind, {}).items()):
            if any(m is not None and m != have for m, have in zip(match, labels, strict=False)):
                continue
            inside = sorted(p for p in points if window.start_ms <= p[0] <= window.end_ms)
            if inside:
                found.append((labels, inside))
        return SeriesRows(
            labels=[labels for labels, _ in found],
            avg=np.array([sum(v for _, v in pts) / len(pts) for _, pts in found], np.float64),
            last=np.array([pts[-1][1] for _, pts in found], np.float64),
            count=np.array([len(pts) for _, pts in found], np.int64),
            oldest_ms=np.array([pts[0][0] for _, pts in found], np.int64),
            newest_ms=np.array([pts[-1][0] for _, pts in found], np.int64),
            percentiles=np.zeros((len(found), len(percentiles))),
        )


class FakeExecutor:
    """Claims and files in memory; layers composed as ``Layer`` says.

    Args:
        baseline: what a file says once nobody claims it, from its target and what it said at first;
            by default what it said at first.
    """

    def __init__(self, baseline: Callable[[Target, str], str] = lambda _, found: found) -> None:
        self.baseline = baseline
        self.claims: dict[tuple[str, str], list[Claim]] = {}
        self.files: dict[tuple[str, str], str] = {}
        self.originals: dict[tuple[str, str], str] = {}
        self.settled = 0
        self._asked = 0

    @property
    def generation(self) -> int:
        """Never the same: whoever holds back what has not changed states all the same."""
        self._asked += 1
        return self._asked

    def state(self, owner: str, scope: str, claims: list[Claim]) -> None:
        self.claims[owner, scope] = list(claims)

    def withdraw(self, owner: str, scope: str | None = None) -> None:
        for key in [k for k in self.claims if k[0] == owner and scope in (None, k[1])]:
            del self.claims[key]

    def bases(self, resource: str, directories: list[str], below: Layer) -> list[int | None]:
        values = (self._composed(resource, directory, below) for directory in directories)
        return [None if value is None else int(value) for value in values]

    def current(self, resource: str, directory: str) -> str | None:
        return self.files.get((resource, directory))

    def values(self, resource: str, directories: list[str]) -> list[str | int | None]:
        said = (self.files.get((resource, directory)) for directory in directories)
        return [None if text is None else int(text) for text in said]

    def last_values(self, resource: str, directories: list[str]) -> list[str | int | None]:
        claimed = {c.directory for c in self.all() if c.resource == resource}
        return self.values(resource, [d if d in claimed else "" for d in directories])

    def settle(self) -> None:
        self.settled += 1
        claimed = {(c.resource, c.directory) for c in self.all()}
        for key in self.originals.keys() - claimed:
            self.files[key] = self.baseline(Target(*key), self.originals.pop(key))
        for key in claimed:
            if key in self.files:
                self.originals.setdefault(key, self.files[key])
            value = self._composed(*key, None)
            if value is not None:
                self.files[key] = str(value)

    def all(self) -> list[Claim]:
        return [claim for claims in self.claims.values() for claim in claims]

    def of(self, owner: str) -> dict[tuple[str, str], list[Claim]]:
        """Claims of an owner by resource and directory."""
        found: dict[tuple[str, str], list[Claim]] = {}
        for (name, _), claims in self.claims.items():
            for claim in claims if name == owner else ():
                found.setdefault((claim.resource, claim.directory), []).append(claim)
        return found

    def value(self, resource: str, directory: str) -> object:
        return self._composed(resource, directory, None)

    def _composed(self, resource: str, directory: str, below: Layer | None) -> object:
        value: object = None
        chosen = [c for c in self.all() if (c.resource, c.directory) == (resource, directory)]
        for claim in sorted(chosen, key=lambda c: c.layer):
            if below is not None and claim.layer >= below:
                break
            value = _applied(claim, value)
        return value


def _applied(claim: Claim, value: object) -> object:
    if claim.layer is Layer.SET or (value is None and claim.layer is not Layer.SCALE):
        return claim.value
    if claim.layer is Layer.SCALE:
        scaled = isinstance(value, int) and value > 0
        return math.ceil(int(str(value)) / float(claim.value)) if scaled else value
    if claim.resource == "cpuset.cpus":
        return str(CPUSet.parse(str(value)) & CPUSet.parse(str(claim.value)))
    order = {True: max, False: min}[claim.layer is Layer.RAISE]
    return order((int(str(value)), int(claim.value)), key=lambda n: math.inf if n < 0 else n)


class FakeEvictor:
    """Evicts at once, or refuses; ``ended`` are pods whose eviction has been seen to end."""

    def __init__(self, refused: frozenset[str] = frozenset()) -> None:
        self.refused = refused
        self.fates: dict[str, EvictionState] = {}
        self.calls: list[tuple[str, str, str]] = []

    def evict(self, pod: PodState, feature: str, message: str) -> EvictionState:
        self.calls.append((pod.pod.metadata.name, feature, message))
        if pod.uid in self.refused:
            return EvictionState.REFUSED
        self.fates[pod.uid] = EvictionState.UNDER_WAY
        return EvictionState.STARTED

    def fate(self, uid: str) -> EvictionState | None:
        return self.fates.get(uid)

    @property
    def evicted(self) -> list[str]:
        return [name for name, _, _ in self.calls]


def machine(
    root: Path,
    *,
    cpus: int = 8,
    version: Version = Version.V2,
    missing: Mapping[object, str] | None = None,
    topology: Topology | None = None,
) -> Machine:
    """A machine with two sockets, two threads a core, and an empty cgroup tree."""
    (root / "cgroup").mkdir(parents=True, exist_ok=True)
    ids = np.arange(cpus, dtype=np.int32)
    socket = ids // max(1, cpus // 2)
    made = topology or Topology.from_cpus(ids, core=ids // 2, socket=socket, node=socket)
    return Machine(
        roots=HostRoots().beneath(str(root)),
        hierarchy=Hierarchy(root / "cgroup", version, "kubepods.slice"),
        layout=CgroupLayout(Driver.SYSTEMD),
        topology=made,
        features=Features(dict(missing or {})),  # type: ignore[arg-type]
        memory_bytes=2**34,
        page_bytes=4096,
        tick_seconds=0.01,
    )
