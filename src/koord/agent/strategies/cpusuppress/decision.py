# SPDX-License-Identifier: Apache-2.0
"""How much CPU best-effort pods may use: columns in, columns out, one row a node.

Rule: docs/reference/strategies.md#cpu-suppression. Integers are milli-cores or microseconds, and a
fraction is dropped where a figure becomes an integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

UNSET = -1
"""In a column of percentages: not configured. In a column of quotas: no quota."""
UNKNOWN = np.iinfo(np.int64).min
"""In a column of milli-cores: there was no earlier round."""

PERIOD_US = 100_000
LEAST_QUOTA_US = 2_000
LEAST_CPUS = 2
_STEP_RATIO = 0.1
_IGNORED_RATIO = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class UsageColumns:
    """CPU in use, in cores.

    Attributes:
        node: of whole nodes, shape (nodes,).
        pod_node, pod, pod_be: of pods, shape (pods,): row of the node, usage, and whether it does
            not count as a service (best effort by label or by Kubernetes' class).
        host_node, host, host_be: the same of applications outside Kubernetes.
    """

    node: Floats
    pod_node: Ints
    pod: Floats
    pod_be: Bools
    host_node: Ints
    host: Floats
    host_be: Bools


@dataclass(frozen=True, slots=True, eq=False)
class SuppressBounds:
    """What nodes have and how much of it may be used, a row a node.

    Attributes:
        capacity_milli: CPU of the node.
        reserved_milli: what is held back for other software, at least.
        threshold_percent: share of the capacity that services, system and BE may use together.
        min_percent: share that BE pods keep in any case; :data:`UNSET` for none.
    """

    capacity_milli: Ints
    reserved_milli: Ints
    threshold_percent: Ints
    min_percent: Ints


@dataclass(frozen=True, slots=True, eq=False)
class AllowedCPU:
    """What BE pods may use and what it came from, a row a node."""

    milli: Ints
    service_cores: Floats
    host_service_cores: Floats
    be_cores: Floats
    system_milli: Ints


def allowed(usage: UsageColumns, bounds: SuppressBounds) -> AllowedCPU:
    """capacity * threshold - services - max(system, reserved), at least the configured minimum.

    The figure may be negative where no minimum is configured.
    """
    rows = len(usage.node)
    pods = _sums(usage.pod_node, usage.pod, rows)
    hosts = _sums(usage.host_node, usage.host, rows)
    service = _sums(usage.pod_node, np.where(usage.pod_be, 0.0, usage.pod), rows)
    host_service = _sums(usage.host_node, np.where(usage.host_be, 0.0, usage.host), rows)
    system = np.maximum(_milli(np.maximum(usage.node - pods - hosts, 0.0)), bounds.reserved_milli)
    milli = bounds.capacity_milli * bounds.threshold_percent // 100
    milli = milli - _milli(service) - _milli(host_service) - system
    least = bounds.capacity_milli * bounds.min_percent // 100
    milli = np.where(bounds.min_percent == UNSET, milli, np.maximum(milli, least))
    be = _sums(usage.pod_node, np.where(usage.pod_be, usage.pod, 0.0), rows)
    return AllowedCPU(milli, service, host_service, be, system)


def smoothed(now_milli: Ints, before_milli: Ints) -> Ints:
    """The figure to act on, from this round's and the last round's, both as :func:`allowed` gives.

    A fall is followed half way in its first round and wholly in the second; a rise waits for the
    second. So one noisy sample costs BE pods at most half of its error, and what lasts is obeyed
    within two rounds. Where nothing is left for BE pods there is no waiting.
    """
    falling = now_milli < before_milli
    half = (now_milli + np.where(falling, before_milli, 0)) // 2
    steady = np.where(falling, half, before_milli)
    at_once = (before_milli == UNKNOWN) | (now_milli <= 0)
    return np.where(at_once, now_milli, steady)


def quotas(allowed_milli: Ints, current_us: Ints, capacity_milli: Ints) -> tuple[Ints, Bools]:
    """The quota of the BE directory, and whether it is to be written.

    Falls are not limited, rises to a tenth of the node a round; what differs by less than a
    hundredth of the node stays. No quota at all is never near one.

    Args:
        allowed_milli: for all BE pods.
        current_us: what the directory has, :data:`UNSET` for none.
        capacity_milli: of the node.
    """
    cores = -(-capacity_milli // 1000)
    wanted = np.maximum(allowed_milli * PERIOD_US // 1000, LEAST_QUOTA_US)
    unlimited = current_us == UNSET
    near = np.abs(wanted - current_us) < _IGNORED_RATIO * cores * PERIOD_US
    step = np.trunc(_STEP_RATIO * cores * PERIOD_US).astype(np.int64)
    stepped = np.where(~unlimited & (wanted - current_us > step), current_us + step, wanted)
    return stepped, unlimited | ~near | (wanted == LEAST_QUOTA_US)


def cpu_counts(
    allowed_milli: Ints, old: Ints, processors: Ints, lsr: Ints, shared: Ints
) -> tuple[Ints, Ints]:
    """How many CPUs BE pods get of those that LSR pods hold, and of the shared ones.

    At least :data:`LEAST_CPUS`, at most a tenth of the machine more than before, and no more than
    there are. Both are 0, and nothing is to be written, where fewer than the least number are left.

    Args:
        allowed_milli: for all BE pods.
        old: CPUs that BE pods have now.
        processors: CPUs of the machine.
        lsr: CPUs of LSR pods that are not held back.
        shared: the other CPUs that neither LSE pods hold nor anyone holds back.
    """
    total = lsr + shared
    step = np.ceil(_STEP_RATIO * processors).astype(np.int64)
    count = np.minimum(np.maximum(-(-allowed_milli // 1000), LEAST_CPUS), old + step)
    count = np.where(total < LEAST_CPUS, 0, np.minimum(np.maximum(count, LEAST_CPUS), total))
    from_lsr = count * lsr // np.maximum(total, 1)
    return from_lsr, count - from_lsr


def _sums(row: Ints, values: Floats, rows: int) -> Floats:
    return np.bincount(row, weights=values, minlength=rows)[:rows].astype(np.float64)


def _milli(cores: Floats) -> Ints:
    return np.trunc(1000 * cores).astype(np.int64)
