# SPDX-License-Identifier: Apache-2.0
"""What a pod is expected to use, and for how long that is held against what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys, resources
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.scheduling import load_estimated_seconds, load_scaling_factors
from koord.api.requests import effective
from koord.controllers.cluster.load_estimate import estimate
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.config.args_koord import HISTOGRAM_ESTIMATOR
from koord.controllers.scheduler.plugins.loadaware.cache import estimate_by_view
from koord.controllers.scheduler.plugins.loadaware.node_metric import (
    AmountVector,
    AssignedPod,
    vector,
)
from koord.controllers.scheduler.plugins.loadaware.workload_histograms import (
    WorkloadHistograms,
    workload_of,
)
from koord.controllers.scheduler.pod_conditions import became_true

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
    from koord.controllers.scheduler.plugins.loadaware.workload_histograms import (
        Workload,
        WorkloadUsage,
    )

# Annotations with which a pod describes its own load.
_OWN = frozenset(
    {
        keys.LOAD_ESTIMATED_SCALING_FACTORS,
        keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
        keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    }
)


# To look a member up in its class takes longer than to compare it.
_PROD = PriorityClass.PROD


class PodEstimate(NamedTuple):
    """What is the same for all pods of a shape.

    Attributes:
        daemon: whether a DaemonSet owns the pods: those pass every filter.
        prod: whether their priority class is Prod.
        estimate: what one is expected to use.
        estimate_by_view: see
            :func:`koord.controllers.scheduler.plugins.loadaware.cache.estimate_by_view`.
        workload: who owns the pods, where estimates are learned.
        usage: what was known of the workload.
        after_initialized, after_scheduled: for how many seconds the estimate counts; 0 for never.
    """

    daemon: bool
    prod: bool
    estimate: AmountVector
    estimate_by_view: tuple[NDArray[np.int64], NDArray[np.int64]]
    workload: Workload | None = None
    usage: WorkloadUsage | None = None
    after_initialized: int = 0
    after_scheduled: int = 0


# Pods without any of these are of the class of their priority or containers, and no DaemonSet's.
_CLASS_OR_OWNER = int(PodField.KOORD_LABELS | PodField.OWNERS)


class PodEstimator:
    """Reads pods by the plugin's arguments.

    Rule: docs/reference/load.md#estimate-of-a-pod.

    Args:
        args: of the plugin.
        names: the resources that count.
    """

    def __init__(self, args: LoadAwareSchedulingArgs, names: Sequence[str]) -> None:
        self._args = args
        self._names = names
        self._default_seconds = (
            args.estimated_seconds_after_initialized or 0,
            args.estimated_seconds_after_pod_scheduled or 0,
        )
        self.histograms = WorkloadHistograms() if args.estimator == HISTOGRAM_ESTIMATOR else None

    def pod_estimate(self, shape: PodShape) -> PodEstimate:
        """What pods of a shape are expected to use."""
        says = self._args.allow_customize_estimation and not _OWN.isdisjoint(shape.annotations)
        if says or self.histograms is not None:
            return self._estimate(shape, class_with_default(shape.pod), says=says)
        # Then it depends on containers, class and kind of owner alone.
        key: tuple[object, ...]
        priority_class: PriorityClass | None = None
        if shape.fields & _CLASS_OR_OWNER:
            priority_class = class_with_default(shape.pod)
            key = self, priority_class, _is_daemon(shape.pod)
        else:
            key = self, shape.pod.spec.priority
        memo = shape.container_requests.memo
        kept: PodEstimate | None = memo.get(key)
        if kept is None:
            if priority_class is None:
                priority_class = class_with_default(shape.pod)
            kept = memo[key] = self._estimate(shape, priority_class, says=False)
        return kept

    def _estimate(
        self, shape: PodShape, priority_class: PriorityClass, *, says: bool
    ) -> PodEstimate:
        """The same, worked out: of pods whose annotations say something of it, or of others."""
        pod, factors = shape.pod, self._args.estimated_scaling_factors
        if says:
            factors = factors | load_scaling_factors(pod)
        prod = priority_class is _PROD
        daemon = _is_daemon(pod)
        expected = estimate(pod, factors, shape.container_requests, priority_class)
        workload: Workload | None = None
        usage: WorkloadUsage | None = None
        if self.histograms is not None:
            workload = workload_of(shape)
            usage = self.usage(workload)
        if usage is not None:
            expected |= _capped(pod, {"cpu": usage.cpu_milli, "memory": usage.memory_bytes})
        amounts, seconds = vector(self._names, expected), self._default_seconds
        if says:
            seconds = _seconds(pod, seconds)
        by_view = estimate_by_view(amounts, prod)
        return PodEstimate(daemon, prod, amounts, by_view, workload, usage, *seconds)

    def usage(self, workload: Workload | None) -> WorkloadUsage | None:
        """What is known of a workload by now."""
        if self.histograms is None or workload is None:
            return None
        return self.histograms.usage(workload)

    def assigned(self, key: str, pod: Pod, pod_estimate: PodEstimate, since: float) -> AssignedPod:
        """A pod as it counts on a node.

        Args:
            key: ``namespace/name``.
            pod: its latest state.
            pod_estimate: of its shape.
            since: wall seconds of its assignment.
        """
        limited = pod_estimate.after_initialized > 0 or pod_estimate.after_scheduled > 0
        deadline = _deadline(pod, pod_estimate, since) if limited else None
        return AssignedPod(
            key,
            pod_estimate.estimate,
            pod_estimate.estimate_by_view,
            pod_estimate.prod,
            since,
            deadline,
        )


def _seconds(pod: Pod, defaults: tuple[int, int]) -> tuple[int, int]:
    """For how long an estimate counts, see :class:`PodEstimate`: what a pod says of its own."""
    initialized = load_estimated_seconds(pod, keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED)
    scheduled = load_estimated_seconds(pod, keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED)
    return (
        initialized if initialized >= 0 else defaults[0],
        scheduled if scheduled >= 0 else defaults[1],
    )


def _is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet is among the owners, the one that manages the pod or another."""
    owners = pod.metadata.owner_references
    return bool(owners) and any(owner.kind == "DaemonSet" for owner in owners)


def _deadline(pod: Pod, pod_estimate: PodEstimate, since: float) -> float | None:
    """Until when the estimate counts."""
    initialized = became_true(pod, "Initialized") if pod_estimate.after_initialized > 0 else None
    if initialized is not None:
        return initialized + pod_estimate.after_initialized
    return since + pod_estimate.after_scheduled if pod_estimate.after_scheduled > 0 else None


def _capped(pod: Pod, amounts: dict[str, int]) -> dict[str, int]:
    """Amounts, where the pod has a limit no more than that."""
    limits, priority_class = effective(pod, limits=True), class_with_default(pod)
    capped = {}
    for name, wanted in amounts.items():
        limit = limits.get(resources.translated(priority_class, name), 0)
        capped[name] = min(wanted, limit) if limit > 0 else wanted
    return capped
