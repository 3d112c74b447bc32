# SPDX-License-Identifier: Apache-2.0
"""What a scenario must be beyond the types of its fields."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.feature_gates import feature_gates
from koord.api.duration import Duration
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.colocation.inputs.scenario import (
        Amount,
        BatchJobSpec,
        LatencySensitiveService,
        MachineGroup,
        Resources,
        Scenario,
    )

MOST_MACHINES = 20_000
MOST_HOURS = 24 * 31
_MOST_CPUS = 8192
_MOST_TASKS = 100_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
_A_DAY_SECONDS = 86_400.0
_QOS = ("LS", "LSR")
_WHOLE = 1e-6


class ScenarioField(NamedTuple):
    """A place in a scenario."""

    source: str
    path: str

    def inner(self, name: str) -> ScenarioField:
        """A place below."""
        return ScenarioField(self.source, f"{self.path}.{name}" if self.path else name)

    def refuse(self, value: object, expected: str) -> KoordError:
        """The error that the value there is."""
        return KoordError(self.source, self.path, value, expected)

    def between(self, value: float, least: float, most: float) -> None:
        """A number in bounds, both included."""
        if not (math.isfinite(value) and least <= value <= most):
            raise self.refuse(value, f"a number from {least:g} to {most:g}")

    def duration(self, text: str, least: float, most: float) -> float:
        """A duration in bounds, both included, in seconds."""
        try:
            seconds = Duration.parse(text).seconds
        except ValueError as error:
            raise KoordError.wrap(self.source, self.path, error) from None
        if not least <= seconds <= most:
            raise self.refuse(text, f"a duration from {least:g}s to {most:g}s")
        return seconds

    def quantity(self, amount: Amount, least: int = 1) -> None:
        """A quantity that is at least so much."""
        try:
            # As milli, the finest that anybody reads; that it fits is then known too.
            value = Quantity.parse(amount).milli(Rounding.UP)
        except ValueError as error:
            raise KoordError.wrap(self.source, self.path, error) from None
        if value < least:
            raise self.refuse(amount, "a quantity above 0" if least else "a quantity of at least 0")

    def names(self, names: Sequence[str]) -> None:
        """Names that are well-formed and each there once."""
        for index, name in enumerate(names):
            at = ScenarioField(self.source, f"{self.path}[{index}].name")
            if not _NAME.fullmatch(name):
                raise at.refuse(name, "lower-case letters, digits and -, at most 42")
            if names.index(name) != index:
                raise at.refuse(name, "each name once")


def check(scenario: Scenario, source: str) -> None:
    """Refuses what cannot be.

    Raises:
        KoordError: names the field.
    """
    at = ScenarioField(source, "")
    at.inner("hours").between(scenario.hours, 1 / 60, MOST_HOURS)
    step = at.inner("step").duration(scenario.step, 1, 60)
    window = at.inner("report.short.window").duration(scenario.report.short.window, 1, 3600)
    for name, span, of in (("step", 60.0, step), ("report.short.window", window, step)):
        if abs(span / of - round(span / of)) > _WHOLE:
            value = scenario.step if name == "step" else scenario.report.short.window
            expected = "a divisor of a minute" if name == "step" else "a multiple of the step"
            raise at.inner(name).refuse(value, expected)
    if window % 60:
        raise at.inner("report.short.window").refuse(
            scenario.report.short.window, "a multiple of a minute"
        )
    if step != int(step):
        raise at.inner("step").refuse(scenario.step, "whole seconds, as agents act every second")
    _check_machines(scenario, at)
    _check_services(scenario, at)
    at.inner("batch").names([kind.name for kind in scenario.batch])
    for index, kind in enumerate(scenario.batch):
        _check_batch(kind, at.inner(f"batch[{index}]"))
    at.inner("batchRequestShareOfClusterCPU").between(scenario.batch_request_share, 0, 10)
    _check_rest(scenario, at)


def _check_rest(scenario: Scenario, at: ScenarioField) -> None:
    if scenario.hot_spot is not None:
        spot, inner = scenario.hot_spot, at.inner("hotSpot")
        inner.inner("machines").between(spot.machines, 1, MOST_MACHINES)
        inner.inner("every").duration(spot.every, 60, _A_DAY_SECONDS)
        inner.inner("extra").between(spot.extra, 0, 100)
    delay = scenario.contention.scheduling_delay
    inner = at.inner("contention.schedulingDelay")
    inner.inner("freeCPUsBelow").between(delay.free_cpus_below, 0, 1)
    inner.inner("lossAtZero").between(delay.loss_at_zero, 0, 1)
    loss = scenario.contention.smt_neighbour.loss
    at.inner("contention.smtNeighbour.loss").between(loss, 0, 1)
    at.inner("report.short.grantedBelow").between(scenario.report.short.granted_below, 0, 1)
    at.inner("system.cpu").between(scenario.system.cpu, 0, 1)
    at.inner("system.memory").between(scenario.system.memory, 0, 1)
    said = (f"{name}={str(on).lower()}" for name, on in scenario.agents.feature_gates.items())
    feature_gates().set_from(",".join(said), f"{at.source} agents.featureGates")


def _check_machines(scenario: Scenario, at: ScenarioField) -> None:
    if not scenario.nodes:
        raise at.inner("nodes").refuse([], "at least one group of machines")
    for index, group in enumerate(scenario.nodes):
        _check_group(group, at.inner(f"nodes[{index}]"))
    if not 1 <= scenario.machines <= MOST_MACHINES:
        value = f"{scenario.machines} machines"
        raise at.inner("nodes").refuse(value, f"1 to {MOST_MACHINES} machines")


def _check_group(group: MachineGroup, at: ScenarioField) -> None:
    at.inner("count").between(group.count, 0, MOST_MACHINES)
    at.inner("cpu").between(group.cpu, 1, _MOST_CPUS)
    at.inner("memory").quantity(group.memory)
    for name, value in (
        ("sockets", group.sockets),
        ("numaNodesPerSocket", group.numa_nodes_per_socket),
        ("threadsPerCore", group.threads_per_core),
    ):
        at.inner(name).between(value, 1, 64)
    parts = group.sockets * group.numa_nodes_per_socket * group.threads_per_core
    if group.cpu % parts:
        expected = f"a multiple of sockets x numaNodesPerSocket x threadsPerCore = {parts}"
        raise at.inner("cpu").refuse(group.cpu, expected)
    if group.gpus is not None:
        at.inner("gpus.count").between(group.gpus.count, 1, 64)
        at.inner("gpus.memory").quantity(group.gpus.memory)


def _check_services(scenario: Scenario, at: ScenarioField) -> None:
    at.inner("servicesRequestShareOfClusterCPU").between(scenario.services_request_share, 0, 1)
    at.inner("services").names([each.name for each in scenario.services])
    for index, service in enumerate(scenario.services):
        _check_service(service, at.inner(f"services[{index}]"))
    total = sum(each.share_of_requested_cpu for each in scenario.services)
    if scenario.services and abs(total - 1) > _WHOLE:
        expected = "shareOfRequestedCPU that add up to 1"
        raise at.inner("services").refuse(total, expected)


def _check_service(service: LatencySensitiveService, at: ScenarioField) -> None:
    if service.qos not in _QOS:
        raise at.inner("qos").refuse(service.qos, "LS or LSR")
    at.inner("shareOfRequestedCPU").between(service.share_of_requested_cpu, 0, 1)
    _check_resources(service.request, at.inner("request"))
    _check_resources(service.limit, at.inner("limit"))
    for name in ("cpu", "memory"):
        asked, most = getattr(service.request, name), getattr(service.limit, name)
        if Quantity.parse(most) < Quantity.parse(asked):
            raise at.inner(f"limit.{name}").refuse(most, f"at least the request, {asked}")
    if service.qos == "LSR" and service.request.cpu_milli % 1000:
        raise at.inner("request.cpu").refuse(service.request.cpu, "whole CPUs, as LSR binds them")
    if service.qos == "LSR" and service.limit.cpu_milli != service.request.cpu_milli:
        expected = f"the request, {service.request.cpu}: there are no other CPUs for it"
        raise at.inner("limit.cpu").refuse(service.limit.cpu, expected)
    for name, request in (("request", service.request), ("limit", service.limit)):
        if request.gpu:
            raise at.inner(f"{name}.gpu").refuse(request.gpu, "0; batch jobs may ask for GPUs")
    _check_demand(service, at)


def _check_demand(service: LatencySensitiveService, at: ScenarioField) -> None:
    cpu, memory = service.cpu_demand, service.memory_demand
    inner = at.inner("cpuDemand")
    inner.inner("mean").between(cpu.mean, 0, 100)
    inner.inner("diurnal.amplitude").between(cpu.diurnal.amplitude, 0, 1)
    inner.inner("diurnal.peakHour").between(cpu.diurnal.peak_hour, 0, 24)
    inner.inner("bursts.perHour").between(cpu.bursts.per_hour, 0, 3600)
    inner.inner("bursts.factor").between(cpu.bursts.factor, 0, 1000)
    inner.inner("bursts.seconds").between(cpu.bursts.seconds, 0, _A_DAY_SECONDS)
    at.inner("memoryDemand.mean").between(memory.mean, 0, 100)
    at.inner("memoryDemand.leakPerHour").quantity(memory.leak_per_hour, 0)
    for name, noise in (("cpuDemand", cpu.noise), ("memoryDemand", memory.noise)):
        at.inner(f"{name}.noise.sigma").between(noise.sigma, 0, 3)
        at.inner(f"{name}.noise.correlation").duration(noise.correlation, 0.001, _A_DAY_SECONDS)


def _check_batch(kind: BatchJobSpec, at: ScenarioField) -> None:
    _check_resources(kind.request, at.inner("request"))
    at.inner("arrivalsPerHour").between(kind.arrivals_per_hour, 0, 1e6)
    if kind.arrivals_file and kind.arrivals_per_hour:
        raise at.inner("arrivalsFile").refuse(kind.arrivals_file, "arrivalsPerHour or it, not both")
    at.inner("tasks.min").between(kind.tasks.min, 1, _MOST_TASKS)
    at.inner("tasks.max").between(kind.tasks.max, kind.tasks.min, _MOST_TASKS)
    at.inner("tasks.shape").between(kind.tasks.shape, 0.01, 100)
    for name, use in (("cpuUse", kind.cpu_use), ("memoryUse", kind.memory_use)):
        at.inner(f"{name}.mean").between(use.mean, 0.01, 1)
        at.inner(f"{name}.sigma").between(use.sigma, 0, 1)
    at.inner("durationSeconds.median").between(kind.duration_seconds.median, 1, 1e7)
    at.inner("durationSeconds.sigma").between(kind.duration_seconds.sigma, 0, 5)
    at.inner("mostPending").between(kind.most_pending, 1, _MOST_TASKS)


def _check_resources(resources: Resources, at: ScenarioField) -> None:
    at.inner("cpu").quantity(resources.cpu)
    at.inner("memory").quantity(resources.memory)
    at.inner("gpu").between(resources.gpu, 0, 64)
