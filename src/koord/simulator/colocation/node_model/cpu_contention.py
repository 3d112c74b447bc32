# SPDX-License-Identifier: Apache-2.0
"""Who gets which CPU on a busy machine: columns in, columns out, a row a machine, in cores.

A machine's CPUs are of two kinds: those that LSR pods are bound to, and the shared ones of all
other pods and the machine's own programs. Best-effort pods may have a number of CPUs of each.

With co-location services go first: the tier of best-effort pods has next to no weight. Without, a
batch pod is a pod like any other: it never uses more than it requests, so the kernel's shares give
it all of that, and services what is left.

What is free is what a service pays for: as the free part of the CPUs that it may run on, or of the
whole machine if that is less, falls below a bound, it loses a growing share of what it would get,
waiting for a CPU. What is lost is used by nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.simulator.colocation.inputs.scenario import SchedulingDelay
    from koord.simulator.colocation.results.result import Floats, Ints


class CoreCounts(NamedTuple):
    """CPUs of machines; ``bound`` are those of LSR pods, ``shared`` the others."""

    shared: Floats
    bound: Floats


class CoreDemand(NamedTuple):
    """What is wanted on each machine, limits counted.

    Attributes:
        shared: by services that are not bound to CPUs.
        bound: by those that are; never more than they are bound to.
        batch: by batch pods.
        system: by the machine's own programs.
    """

    shared: Floats
    bound: Floats
    batch: Floats
    system: Floats


class CoreGrants(NamedTuple):
    """What everybody gets; with what is free it adds up to the machine, but for what is lost.

    Attributes:
        shared, bound: by services, what contention takes off already gone.
        batch: by batch pods.
        system: by the machine's own programs.
        free: neither used nor waited for.
    """

    shared: Floats
    bound: Floats
    batch: Floats
    system: Floats
    free: Floats

    @property
    def used(self) -> Floats:
        """By all."""
        return self.shared + self.bound + self.batch + self.system


class BestEffortTier(NamedTuple):
    """What best-effort pods may have: CPUs of each kind, and cores in all."""

    shared: Floats
    bound: Floats
    quota: Floats


class FreeCores(NamedTuple):
    """What is left once those who go first have theirs: the same for every tier."""

    cores: CoreCounts
    system: Floats
    shared: Floats
    bound: Floats
    left_shared: Floats
    left_bound: Floats


def loss(free_share: Floats, delay: SchedulingDelay) -> Floats:
    """The share of its CPU that a service loses, from the free share of the CPUs."""
    below = delay.free_cpus_below
    if below <= 0:
        return np.where(free_share <= 0, delay.loss_at_zero, 0.0)
    found: Floats = delay.loss_at_zero * (1.0 - np.clip(free_share, 0.0, below) / below)
    return found


def native(cores: CoreCounts, wants: CoreDemand, delay: SchedulingDelay) -> CoreGrants:
    """Without co-location: batch pods have what they request, services the rest."""
    system = np.minimum(wants.system, cores.shared)
    batch = np.minimum(wants.batch, cores.shared - system)
    shared = np.minimum(wants.shared, cores.shared - system - batch)
    bound = np.minimum(wants.bound, cores.bound)
    left = FreeCores(
        cores, system, shared, bound, cores.shared - system - batch - shared, cores.bound - bound
    )
    return _contended(left, batch, left.left_shared, left.left_bound, delay)


def free_cores(cores: CoreCounts, wants: CoreDemand) -> FreeCores:
    """With co-location: services go first."""
    system = np.minimum(wants.system, cores.shared)
    shared = np.minimum(wants.shared, cores.shared - system)
    bound = np.minimum(wants.bound, cores.bound)
    return FreeCores(
        cores, system, shared, bound, cores.shared - system - shared, cores.bound - bound
    )


def best_effort(
    left: FreeCores, batch: Floats, tier: BestEffortTier, delay: SchedulingDelay
) -> CoreGrants:
    """With co-location: batch pods have what is left, as far as their tier goes.

    Where they want less than they could have they are spread over both kinds of CPUs in the
    proportion of what they could have there.
    """
    most_shared = np.minimum(tier.shared, left.left_shared)
    most_bound = np.minimum(tier.bound, left.left_bound)
    most = most_shared + most_bound
    granted = np.minimum(np.minimum(batch, tier.quota), most)
    part = granted / np.maximum(most, 1e-12)
    return _contended(
        left,
        granted,
        left.left_shared - most_shared * part,
        left.left_bound - most_bound * part,
        delay,
    )


def _contended(
    left: FreeCores, batch: Floats, free_shared: Floats, free_bound: Floats, delay: SchedulingDelay
) -> CoreGrants:
    """Takes off what services lose on machines with little free."""
    cores = left.cores
    free = free_shared + free_bound
    whole = free / (cores.shared + cores.bound)
    by_shared = np.minimum(whole, free_shared / np.maximum(cores.shared, 1e-12))
    by_bound = np.minimum(whole, free_bound / np.maximum(cores.bound, 1e-12))
    return CoreGrants(
        left.shared * (1 - loss(by_shared, delay)),
        left.bound * (1 - loss(by_bound, delay)),
        batch,
        left.system,
        free,
    )


def summed(machine: Ints, amounts: NDArray[np.generic], machines: int) -> Floats:
    """Amounts of pods or tasks added up by machine."""
    # Of nothing at all bincount makes integers.
    return np.bincount(machine, amounts.astype(np.float64), machines).astype(np.float64)
