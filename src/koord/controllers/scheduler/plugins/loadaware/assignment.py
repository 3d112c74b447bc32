# SPDX-License-Identifier: Apache-2.0
"""What a pod is expected to use, and for how long that is held against what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys, resources
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.scheduling import load_estimated_seconds, load_scaling_factors
from koord.api.requests import effective
from koord.controllers.cluster.load_estimate import estimate
from koord.controllers.scheduler.conditions import became_true
from koord.controllers.scheduler.config.args_koord import HISTOGRAM_ESTIMATOR
from koord.controllers.scheduler.plugins.loadaware.learned import Learned, workload_of
from koord.controllers.scheduler.plugins.loadaware.ledger import whole
from koord.controllers.scheduler.plugins.loadaware.measured import Amounts, Assigned, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
    from koord.controllers.scheduler.plugins.loadaware.learned import Known, Workload

# What a pod may say of its own load.
_OWN = frozenset(
    {
        keys.LOAD_ESTIMATED_SCALING_FACTORS,
        keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
        keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    }
)


class Ask(NamedTuple):
    """What is the same for all pods of a shape.

    Attributes:
        daemon: whether a DaemonSet owns the pods: those pass every filter.
        prod: whether their priority class is Prod.
        estimate: what one is expected to use.
        whole: that by view, see :func:`koord.controllers.scheduler.plugins.loadaware.ledger.whole`.
        workload: who owns the pods, where estimates are learned.
        known: what was known of the workload.
        after_initialized, after_scheduled: for how many seconds the estimate counts; 0 for never.
    """

    daemon: bool
    prod: bool
    estimate: Amounts
    whole: tuple[NDArray[np.int64], NDArray[np.int64]]
    workload: Workload | None = None
    known: Known | None = None
    after_initialized: int = 0
    after_scheduled: int = 0


class Assigner:
    """Reads pods by the plugin's arguments.

    Rule: docs/reference/load.md#estimate-of-a-pod.

    Args:
        args: of the plugin.
        names: the resources that count.
    """

    def __init__(self, args: LoadAwareSchedulingArgs, names: Sequence[str]) -> None:
        self._args = args
        self._names = names
        self.learned = Learned() if args.estimator == HISTOGRAM_ESTIMATOR else None

    def ask(self, shape: PodShape) -> Ask:
        """What pods of a shape are expected to use."""
        own = self.learned is not None or (
            self._args.allow_customize_estimation and not _OWN.isdisjoint(shape.annotations)
        )
        if own:
            return self._ask(shape)
        # Then containers, class and kind of owner say it all.
        key = self, class_with_default(shape.pod), _is_daemon(shape.pod)
        known: Ask | None = shape.asked.memo.get(key)
        if known is None:
            known = shape.asked.memo[key] = self._ask(shape)
        return known

    def _ask(self, shape: PodShape) -> Ask:
        pod, factors = shape.pod, self._args.estimated_scaling_factors
        if self._args.allow_customize_estimation:
            factors = factors | load_scaling_factors(pod)
        prod = class_with_default(pod) is PriorityClass.PROD
        daemon = _is_daemon(pod)
        expected = estimate(pod, factors, shape.asked)
        workload = workload_of(shape) if self.learned is not None else None
        known = self.known(workload)
        if known is not None:
            expected |= _capped(pod, {"cpu": known.cpu_milli, "memory": known.memory_bytes})
        amounts = vector(self._names, expected)
        return Ask(
            daemon, prod, amounts, whole(amounts, prod), workload, known,
            self._seconds(
                pod, keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
                self._args.estimated_seconds_after_initialized,
            ),
            self._seconds(
                pod, keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
                self._args.estimated_seconds_after_pod_scheduled,
            ),
        )  # fmt: skip

    def known(self, workload: Workload | None) -> Known | None:
        """What is known of a workload by now."""
        if self.learned is None or workload is None:
            return None
        return self.learned.known(workload)

    def assigned(self, key: str, pod: Pod, ask: Ask, since: float) -> Assigned:
        """A pod as it counts on a node.

        Args:
            key: ``namespace/name``.
            pod: its latest state.
            ask: of its shape.
            since: wall seconds of its assignment.
        """
        limited = ask.after_initialized > 0 or ask.after_scheduled > 0
        deadline = _deadline(pod, ask, since) if limited else None
        return Assigned(key, ask.estimate, ask.whole, ask.prod, since, deadline)

    def _seconds(self, pod: Pod, key: str, default: int | None) -> int:
        own = -1
        if self._args.allow_customize_estimation:
            own = load_estimated_seconds(pod, key)
        return own if own >= 0 else default or 0


def _is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet is among the owners, the one that manages the pod or another."""
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def _deadline(pod: Pod, ask: Ask, since: float) -> float | None:
    """Until when the estimate counts."""
    initialized = became_true(pod, "Initialized") if ask.after_initialized > 0 else None
    if initialized is not None:
        return initialized + ask.after_initialized
    return since + ask.after_scheduled if ask.after_scheduled > 0 else None


def _capped(pod: Pod, amounts: dict[str, int]) -> dict[str, int]:
    """Amounts, where the pod has a limit no more than that."""
    limits, priority_class = effective(pod, limits=True), class_with_default(pod)
    found = {}
    for name, wanted in amounts.items():
        limit = limits.get(resources.translated(priority_class, name), 0)
        found[name] = min(wanted, limit) if limit > 0 else wanted
    return found
