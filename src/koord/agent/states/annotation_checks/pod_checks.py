# SPDX-License-Identifier: Apache-2.0
"""Annotations that are judged by the pod alone: what is beyond any class is not obeyed.

A malformed annotation is left to who reads it: hooks tell of it and keep the last good value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.states.annotation_checks.pod_memo import PodMemo
from koord.agent.states.pod_state import least_oom_score
from koord.api.kinds.qos_strategy import MemoryQOS
from koord.api.kinds.slo_strategies import CPUBurstStrategy
from koord.api.protocol import annotation, keys
from koord.api.protocol.agent import (
    NetworkLimits,
    PodMemoryQOS,
    cpu_burst,
    memory_qos,
    oom_scores,
)
from koord.api.sloconfig.rules import BOUNDS, Bounds, problems
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from koord.agent.states.pod_state import PodState

    Problem = tuple[str, KoordError]

CHECKED = frozenset(
    {
        keys.CPU_BURST, keys.MEMORY_QOS, keys.NETWORK_QOS,
        keys.OOM_SCORE_ADJ, keys.OOM_SCORE_ADJ_SPEC,
    }
)  # fmt: skip
MOST_BURST_PERCENT = 10_000
"""A raised quota, as the kernel's burst, is at most so many percent of the limit."""

_BOUNDS: dict[type, dict[str, Bounds]] = {
    PodMemoryQOS: BOUNDS[MemoryQOS],
    CPUBurstStrategy: BOUNDS.get(CPUBurstStrategy, {})
    | {
        "cpuBurstPercent": Bounds(0, MOST_BURST_PERCENT),
        "cfsQuotaBurstPercent": Bounds(100, MOST_BURST_PERCENT),
    },
}
_ZERO = Quantity()


class PodChecks:
    """Judges pods, each once while it stays the same.

    Args:
        memory_bytes: of the machine, by which the kubelet scores.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._memo: PodMemo[list[Problem]] = PodMemo(lambda pod: list(self._problems(pod)))

    def problems(self, pod: PodState) -> list[Problem]:
        """Keys of annotations that are not obeyed, and why not."""
        return self._memo.of(pod)

    def keep(self, uids: Collection[str]) -> None:
        """Forgets all other pods."""
        self._memo.keep(uids)

    def _problems(self, pod: PodState) -> Iterator[Problem]:
        there = pod.pod.metadata.annotations
        checks: dict[str, Callable[[PodState], Iterator[KoordError]]] = {
            keys.CPU_BURST: _bursts,
            keys.MEMORY_QOS: _memory,
            keys.NETWORK_QOS: _network,
        }
        for key, check in checks.items():
            if key in there:
                error = _first(check, pod)
                if error is not None:
                    yield key, error
        if keys.OOM_SCORE_ADJ in there or keys.OOM_SCORE_ADJ_SPEC in there:
            yield from self._scores(pod)

    def _scores(self, pod: PodState) -> Iterator[Problem]:
        """Nobody is to be killed later than the kubelet would have it."""
        try:
            scores = oom_scores(pod.pod)
        except KoordError:
            return
        for container in pod.containers:
            try:
                score = scores.of(container.name)
            except KoordError:
                continue
            least = least_oom_score(pod, container, self._memory_bytes)
            if score is not None and score < least:
                named = container.name in scores.own
                key = keys.OOM_SCORE_ADJ_SPEC if named else keys.OOM_SCORE_ADJ
                field = annotation.field_of(key) + (f".{container.name}" if named else "")
                expected = f"{least} or more, as the kubelet gives a {pod.kube_qos} pod"
                yield key, KoordError(pod.pod.title, field, score, expected)


def _first(check: Callable[[PodState], Iterator[KoordError]], pod: PodState) -> KoordError | None:
    try:
        return next(check(pod), None)
    except KoordError:
        return None


def _bursts(pod: PodState) -> Iterator[KoordError]:
    own = cpu_burst(pod.pod)
    where = annotation.field_of(keys.CPU_BURST)
    return problems(own, pod.pod.title, where, _BOUNDS) if own else iter(())


def _memory(pod: PodState) -> Iterator[KoordError]:
    own = memory_qos(pod.pod)
    where = annotation.field_of(keys.MEMORY_QOS)
    return problems(own, pod.pod.title, where, _BOUNDS) if own else iter(())


def _network(pod: PodState) -> Iterator[KoordError]:
    own = annotation.read(pod.pod, keys.NETWORK_QOS, NetworkLimits) or NetworkLimits()
    limits = (("ingressLimit", own.ingress_limit), ("egressLimit", own.egress_limit))
    where = annotation.field_of(keys.NETWORK_QOS)
    return (
        KoordError(pod.pod.title, f"{where}.{name}", str(limit), "a quantity of 0 or more")
        for name, limit in limits
        if limit < _ZERO
    )
