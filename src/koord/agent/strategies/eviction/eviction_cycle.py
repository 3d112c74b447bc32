# SPDX-License-Identifier: Apache-2.0
"""A round of evictions: cool-down, what each feature wants, the tasks, and what is told of it.

Rule: docs/reference/evictions.md#order-of-a-round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.strategies import pod_resources, readings
from koord.agent.strategies.eviction.tasks import (
    EvictionOutcome,
    EvictionTask,
    EvictionVictim,
    execute,
    merged,
)
from koord.base import log
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy

REASON = "evicted"
"""The reason that the series of evictions carry."""

_LOG = log.get("agent.eviction")


@dataclass(frozen=True, slots=True)
class EvictionRequest:
    """What one feature wants in this round.

    Attributes:
        target: whether used or requested amounts are to be released.
        release: milli-cores or bytes by resource.
        victims: in the order of eviction.
        amounts: what a pod would release of that target, by resource.
    """

    target: str
    release: Mapping[str, int]
    victims: Sequence[PodState]
    amounts: Callable[[PodState], Mapping[str, int]]


class EvictionCycle:
    """Rounds of one strategy.

    Args:
        name: of the strategy.
        native: cpu or memory; nobody is evicted from a node without capacity of it.
        cool_seconds: after a new eviction, until the next round that may evict.
        requests: what builds each feature's request, in the order of their tasks; None is nothing
            to do.
        options: gates and instruments.
        cool_at_start: whether the first round waits too.
    """

    def __init__(
        self,
        name: str,
        native: str,
        cool_seconds: float,
        requests: Mapping[str, Callable[[Tick, ResourceThresholdStrategy], EvictionRequest | None]],
        options: StrategyOptions,
        *,
        cool_at_start: bool,
    ) -> None:
        self._name = name
        self._native = native
        self._cool_seconds = cool_seconds
        self._request_builders = requests
        self._options = options
        self._cool_at_start = cool_at_start
        self._last_seconds: float | None = None
        self._reported: dict[str, PodState] = {}

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round.

        Raises:
            KoordError: configuration is missing, or what is known is too old to evict upon.
        """
        cooling = self._cooling_seconds(tick.now_seconds)
        if cooling > 0:
            return {"state": "cooling", "for_seconds": round(cooling, 3)}
        config = readings.thresholds(tick)
        if not config.enable:
            return {"state": "disabled"}
        readings.check_fresh(tick, readings.TO_EVICT)
        _check_capacity(tick, self._native)
        requests, notes = self._requests(tick, config)
        if not requests:
            return {"state": "calm", "notes": notes} if notes else {"state": "calm"}
        outcome = execute(tasks_of(requests), hands.evictor)
        if outcome.started:
            self._last_seconds = tick.now_seconds
        self._report(tick, outcome)
        return {**_cycle_summary(requests, outcome), **({"notes": notes} if notes else {})}

    def _cooling_seconds(self, now: float) -> float:
        if self._last_seconds is None:
            self._last_seconds = now if self._cool_at_start else float("-inf")
        return self._last_seconds + self._cool_seconds - now

    def _requests(
        self, tick: Tick, config: ResourceThresholdStrategy
    ) -> tuple[dict[str, EvictionRequest], dict[str, str]]:
        requests: dict[str, EvictionRequest] = {}
        notes: dict[str, str] = {}
        for feature, build in self._request_builders.items():
            if not self._options.gates.enabled(feature):
                continue
            try:
                request = build(tick, config)
            except KoordError as error:
                notes[feature] = str(error)
                continue
            if request is not None and any(amount > 0 for amount in request.release.values()):
                requests[feature] = request
        return requests, notes

    def _report(self, tick: Tick, outcome: EvictionOutcome) -> None:
        present = {pod.key: pod for pod in tick.snapshot.pods.value}
        for key in self._reported.keys() - present.keys():
            self._options.instruments.forget_evicted(self._reported.pop(key), REASON)
        for feature, names in outcome.started.items():
            for key in names:
                self._reported[key] = present[key]
                self._options.instruments.evicted(present[key], REASON)
                _LOG.warning("evicting", extra=log.fields(pod=key, feature=feature))


def _check_capacity(tick: Tick, native: str) -> None:
    node = readings.node(tick)
    capacity = pod_resources.amount(node.status.capacity, native)
    if capacity is None or capacity <= 0:
        raise KoordError("Node", f"status.capacity.{native}", capacity, "more than 0")


def tasks_of(requests: Mapping[str, EvictionRequest]) -> list[EvictionTask]:
    """The tasks of a round, in the order of the requests; a pod counts for all of them."""

    def victim(pod: PodState) -> EvictionVictim:
        return EvictionVictim(
            pod, merged([(request.target, request.amounts(pod)) for request in requests.values()])
        )

    return [
        EvictionTask(
            feature, request.target, request.release, [victim(pod) for pod in request.victims]
        )
        for feature, request in requests.items()
    ]


def _cycle_summary(
    requests: Mapping[str, EvictionRequest], outcome: EvictionOutcome
) -> dict[str, object]:
    return {
        "state": "evicting",
        "release": {feature: dict(request.release) for feature, request in requests.items()},
        "started": outcome.started,
        "counted": outcome.counted,
        "refused": outcome.refused,
        "short": outcome.short,
    }
