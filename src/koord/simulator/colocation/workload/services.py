# SPDX-License-Identifier: Apache-2.0
"""The pods of latency-sensitive services: where they are, and what they want from step to step.

A row is a pod. What they want depends on the seed and the time alone, never on what they get, so
that two runs of a seed have the same services. CPU moves every step, memory every minute::

    demand = request * mean * (1 + amplitude * cos(...)) * exp(x - sigma ^ 2 / 2) * burst

with x a first-order autoregressive process. A burst lasts whole steps, on average as long as the
scenario says, and is at its full height in each.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.base import rng
from koord.simulator.colocation.workload.hot_spot import HotSpot

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from koord.simulator.colocation.inputs.scenario import (
        LatencySensitiveService,
        NoiseSpec,
        Scenario,
    )
    from koord.simulator.colocation.results.result import Ints, Singles

MINUTE_SECONDS = 60.0


class MachineCapacities(NamedTuple):
    """Machines as columns, a row a machine; LSR pods hold ``bound_cpus`` of the ``cpus``."""

    cpus: Ints
    memory_bytes: Ints
    bound_cpus: Ints


class ServicePods(NamedTuple):
    """Where the pods of services are and what they may have, a row a pod, service by service.

    Attributes:
        machine: row of the machine.
        service: which, in the scenario's order.
        bound: whether it is LSR.
        request_milli, limit_milli: CPU.
        request_bytes, limit_bytes: memory.
    """

    machine: Ints
    service: Ints
    bound: NDArray[np.bool_]
    request_milli: Ints
    limit_milli: Ints
    request_bytes: Ints
    limit_bytes: Ints

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self[0])


def placed(scenario: Scenario, seed: int) -> tuple[MachineCapacities, ServicePods]:
    """All machines, and the pods of services spread over them.

    The largest pods go first, each to the machine with the least part of its CPU requested; equals
    go by an order that the seed draws. A service that does not fill a pod's request gets none more.
    """
    cpus = np.repeat([g.cpu for g in scenario.nodes], [g.count for g in scenario.nodes])
    memory = np.repeat([g.memory_bytes for g in scenario.nodes], [g.count for g in scenario.nodes])
    rank = rng.numpy_stream(seed, "machines").permutation(len(cpus))
    heap = [(0.0, int(order), row) for row, order in enumerate(rank)]
    heapify(heap)
    total_milli = 1000 * scenario.cluster_cores * scenario.services_request_share
    services = scenario.services
    machines: list[list[int]] = [[] for _ in services]
    for at in sorted(range(len(services)), key=lambda at: -services[at].request.cpu_milli):
        asked = services[at].request.cpu_milli
        for _ in range(int(total_milli * services[at].share_of_requested_cpu / asked)):
            share, order, row = heap[0]
            machines[at].append(row)
            heapreplace(heap, (share + asked / cpus[row], order, row))
    counts = [len(each) for each in machines]

    def column(read: Callable[[LatencySensitiveService], int]) -> Ints:
        return np.repeat(np.array([read(each) for each in services], np.int64), counts)

    machine = np.array([row for rows in machines for row in rows], np.int64)
    pods = ServicePods(
        machine,
        np.repeat(np.arange(len(services)), counts),
        column(lambda each: each.qos == "LSR").astype(np.bool_),
        column(lambda each: each.request.cpu_milli),
        column(lambda each: each.limit.cpu_milli),
        column(lambda each: each.request.memory_bytes),
        column(lambda each: each.limit.memory_bytes),
    )
    own = np.where(pods.bound, pods.request_milli // 1000, 0)
    bound = np.bincount(machine, own, len(cpus)).astype(np.int64)
    return MachineCapacities(cpus.astype(np.int64), memory.astype(np.int64), bound), pods


class ServiceDemands:
    """What the pods of services want.

    Args:
        scenario: the services.
        pods: their pods.
        seed: of all draws.

    Attributes:
        cpu: cores that each pod wants now, float32; its limit does not count yet.
        capped: the same, at most the limit.
        memory_bytes: that each pod holds.
        restarts: how often each pod was killed at its memory limit.
    """

    def __init__(self, scenario: Scenario, pods: ServicePods, seed: int) -> None:
        self._pods, self._dt = pods, scenario.step_seconds
        self._services = scenario.services
        self._cpu_draws = rng.numpy_stream(seed, "services", "cpu")
        self._burst_draws = rng.numpy_stream(seed, "services", "bursts")
        self._memory_draws = rng.numpy_stream(seed, "services", "memory")
        self._limit = (pods.limit_milli / 1000).astype(np.float32)
        self._request = (pods.request_milli / 1000).astype(np.float32)
        self._cpu_noise = _Noise(
            [each.cpu_demand.noise for each in self._services], pods.service, self._dt
        )
        self._memory_noise = _Noise(
            [each.memory_demand.noise for each in self._services], pods.service, MINUTE_SECONDS
        )
        bursts = [each.cpu_demand.bursts for each in self._services]
        begin = [-np.expm1(-each.per_hour / 3600 * self._dt) for each in bursts]
        self._burst_begins = np.array(begin)[pods.service].astype(np.float32)
        self._burst_height = np.array([each.factor for each in bursts], np.float32)[pods.service]
        self._burst_steps = np.array([each.seconds / self._dt for each in bursts])[pods.service]
        self._burst_left = np.zeros(pods.rows, np.int32)
        mean = np.array([each.memory_demand.mean for each in self._services])
        self._memory_mean = pods.request_bytes * mean[pods.service]
        leak = [each.memory_demand.leak_bytes_per_hour for each in self._services]
        self._leak = np.array(leak, np.float64)[pods.service] * MINUTE_SECONDS / 3600
        self._leaked = np.zeros(pods.rows)
        self.restarts = np.zeros(pods.rows, np.int64)
        self.cpu = self.capped = np.zeros(pods.rows, np.float32)
        self.memory_bytes = self._memory_mean.copy()
        spot = scenario.hot_spot
        self._hot_spot = None
        if spot is not None:
            self._hot_spot = HotSpot(spot, pods.machine.copy(), scenario.hours, seed)
        self._cpu_noise.begin(self._cpu_draws)
        self._memory_noise.begin(self._memory_draws)

    def step(self, now_seconds: float) -> None:
        """What is wanted from now until the next step."""
        level = np.array([self._level(each, now_seconds) for each in self._services], np.float32)
        of_pods = level[self._pods.service]
        if self._hot_spot is not None:
            of_pods += self._hot_spot.extra(now_seconds)
        wanted = self._request * of_pods
        wanted *= self._cpu_noise.factors(self._cpu_draws)
        self._burst()
        np.multiply(wanted, self._burst_height, out=wanted, where=self._burst_left > 0)
        self.replace(wanted)

    def replace(self, wanted: Singles) -> None:
        """Has each pod want so many cores until the next step."""
        self.cpu = wanted
        self.capped = np.minimum(wanted, self._limit)

    def minute(self) -> None:
        """What is held from now until the next minute; pods at their limit start anew."""
        factors = self._memory_noise.factors(self._memory_draws)
        self._leaked += self._leak
        held = self._memory_mean * factors + self._leaked
        killed = held > self._pods.limit_bytes
        if killed.any():
            self.restarts += killed
            self._leaked[killed] = 0.0
            held[killed] = np.minimum(self._memory_mean, self._pods.limit_bytes)[killed]
        self.memory_bytes = held

    def _level(self, service: LatencySensitiveService, now_seconds: float) -> float:
        """The mean of a service at a time of the day, as a share of the request."""
        day = service.cpu_demand.diurnal
        turn = 2 * np.pi * (now_seconds / 3600 - day.peak_hour) / 24
        return service.cpu_demand.mean * float(1 + day.amplitude * np.cos(turn))

    def _burst(self) -> None:
        """Bursts go on, and some begin; one that begins during another begins anew."""
        np.maximum(self._burst_left - 1, 0, out=self._burst_left)
        draws = self._burst_draws.random(len(self._burst_left), np.float32)
        began = np.flatnonzero(draws < self._burst_begins)
        if len(began):
            steps = self._burst_steps[began] + self._burst_draws.random(len(began))
            self._burst_left[began] = np.floor(steps)


class _Noise:
    """Factors exp(x - sigma^2 / 2), a row a pod, with x first-order autoregressive."""

    def __init__(self, noises: list[NoiseSpec], service: Ints, seconds: float) -> None:
        keep = np.array([np.exp(-seconds / each.correlation_seconds) for each in noises])
        sigma = np.array([each.sigma for each in noises])
        self._keep = keep.astype(np.float32)[service]
        self._spread = (sigma * np.sqrt(1 - keep * keep)).astype(np.float32)[service]
        self._sigma = sigma.astype(np.float32)[service]
        self._bias = (sigma * sigma / 2).astype(np.float32)[service]
        self._x = np.zeros(len(service), np.float32)

    def begin(self, draws: rng.NumpyGenerator) -> None:
        """Draws where the process is at the start."""
        self._x = self._sigma * draws.standard_normal(len(self._x), np.float32)

    def factors(self, draws: rng.NumpyGenerator) -> Singles:
        """One step on."""
        self._x *= self._keep
        self._x += self._spread * draws.standard_normal(len(self._x), np.float32)
        found: Singles = np.exp(self._x - self._bias)
        return found
