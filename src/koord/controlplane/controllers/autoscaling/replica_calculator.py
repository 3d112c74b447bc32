# SPDX-License-Identifier: Apache-2.0
"""From what pods use to how many there should be, for one metric.

Rule: Kubernetes' replica calculator. Pods that are not ready yet count as using nothing when that
would scale up, pods without figures as using nothing or all that is aimed at, whichever holds back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.pod import Pod
    from koord.kernels.quantity import Quantity

TOLERANCE = 0.1
_MOST_MILLI = 2**63 - 1
# How long after its start a pod's CPU figures are doubted, and how long readiness may take to show.
CPU_INITIALIZATION_SECONDS, INITIAL_READINESS_SECONDS = 300.0, 30.0


class MetricError(Exception):
    """A metric says nothing; the text says why."""


@dataclass(frozen=True)
class PodUsage:
    """What one pod used.

    Attributes:
        milli: of the resource, in thousandths.
        timestamp: end of the window, in wall seconds.
        window: in seconds.
    """

    milli: int
    timestamp: float
    window: float


@dataclass(frozen=True)
class MetricTarget:
    """What is aimed at: a share of the requests, or an amount a pod.

    Attributes:
        percent: of the requests; 0 where there is an amount.
        milli: the amount, in thousandths.
        container: whose figures count; empty for the whole pod.
    """

    resource: str
    percent: int = 0
    milli: int = 0
    container: str = ""


@dataclass(frozen=True)
class MetricProposal:
    """What one metric asks for.

    Attributes:
        percent: the share of the requests that is used; None where an amount is aimed at.
        milli: what a pod uses on average, in thousandths.
    """

    replicas: int
    percent: int | None
    milli: int


@dataclass
class _PodGroups:
    ready: int = 0
    unready: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Tolerances:
    """By which shares use may differ from what is aimed at."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def hold(self, ratio: float) -> bool:
        """Whether a ratio is near enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def milli_of(amount: Quantity) -> int:
    """An amount in thousandths, at most what fits in 64 bits."""
    try:
        return amount.milli()
    except ValueError:
        return _MOST_MILLI


def proposal(
    current: int,
    target: MetricTarget,
    selected: Sequence[Pod],
    used: Mapping[str, PodUsage],
    tolerances: Tolerances,
    now: float,
) -> MetricProposal:
    """How many pods there should be.

    Args:
        current: how many there should be now.
        target: what is aimed at.
        selected: the pods of the workload.
        used: by name, what they use.
        tolerances: what difference is none.
        now: wall seconds.

    Raises:
        MetricError: nobody can tell.
    """
    if not selected:
        raise MetricError("no pods returned by selector while calculating replica count")
    groups = _grouped(selected, used, target.resource, now)
    figures = {
        name: usage.milli
        for name, usage in used.items()
        if name not in groups.ignored and name not in groups.unready
    }
    if not figures:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    requests = _requests(selected, target) if target.percent else {}
    ratio, percent, milli = _ratio(figures, requests, target)
    up_with_unready = bool(groups.unready) and ratio > 1.0
    if not up_with_unready and not groups.missing:
        replicas = current if tolerances.hold(ratio) else ceil(ratio * groups.ready)
        return MetricProposal(replicas, percent, milli)
    for name in groups.missing if ratio != 1.0 else ():
        figures[name] = 0 if ratio > 1.0 else _aimed(name, requests, target)
    if up_with_unready:
        figures |= dict.fromkeys(groups.unready, 0)
    second, _, _ = _ratio(figures, requests, target)
    turned = (ratio < 1.0 < second) or (second < 1.0 < ratio)
    replicas = ceil(second * len(figures))
    against = (second < 1.0 and replicas > current) or (second > 1.0 and replicas < current)
    if tolerances.hold(second) or turned or against:
        replicas = current
    return MetricProposal(replicas, percent, milli)


def _aimed(name: str, requests: Mapping[str, int], target: MetricTarget) -> int:
    """What a pod without figures is taken to use when there may be too many pods."""
    if not target.percent:
        return target.milli
    return requests[name] * max(100, target.percent) // 100


def _ratio(
    figures: Mapping[str, int], requests: Mapping[str, int], target: MetricTarget
) -> tuple[float, int | None, int]:
    if not target.percent:
        average = sum(figures.values()) // len(figures)
        return average / target.milli, None, average
    known = {name: milli for name, milli in figures.items() if name in requests}
    total = sum(requests[name] for name in known)
    if not total:
        raise MetricError("no metrics returned matched known pods")
    used = sum(known.values())
    percent = used * 100 // total
    return percent / target.percent, percent, used // len(known)


def _grouped(
    selected: Sequence[Pod], used: Mapping[str, PodUsage], resource: str, now: float
) -> _PodGroups:
    groups = _PodGroups()
    for pod in selected:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            groups.ignored.add(name)
        elif pod.status.phase == "Pending":
            groups.unready.add(name)
        elif name not in used:
            groups.missing.add(name)
        elif resource == "cpu" and _is_unready(pod, used[name], now):
            groups.unready.add(name)
        else:
            groups.ready += 1
    return groups


def _is_unready(pod: Pod, usage: PodUsage, now: float) -> bool:
    condition = pods.condition_of(pod, "Ready")
    if condition is None or pod.status.start_time is None:
        return True
    started = seconds_of(pod.status.start_time)
    moved = seconds_of(condition.last_transition_time)
    not_ready = condition.status == "False"
    if started + CPU_INITIALIZATION_SECONDS > now:
        return not_ready or usage.timestamp < moved + usage.window
    return not_ready and started + INITIAL_READINESS_SECONDS > moved


def _requests(selected: Sequence[Pod], target: MetricTarget) -> dict[str, int]:
    return {pod.metadata.name: _request(pod, target) for pod in selected}


def _request(pod: Pod, target: MetricTarget) -> int:
    resource, name, whole = target.resource, pod.metadata.name, pod.spec.resources
    if whole is not None and whole.requests and not target.container:
        if resource not in whole.requests:
            raise MetricError(f"missing pod-level request for {resource} in Pod {name}")
        return milli_of(whole.requests[resource])
    total, found = 0, not target.container
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    for container in [*pod.spec.containers, *sidecars]:
        if target.container in ("", container.name):
            found = True
            asked = container.resources.requests.get(resource)
            if asked is None:
                where = f"in container {container.name} of Pod {name}"
                raise MetricError(f"missing request for {resource} {where}")
            total += milli_of(asked)
    if not found:
        raise MetricError(f"container {target.container} not found in Pod {name}")
    return total
