# SPDX-License-Identifier: Apache-2.0
"""Carries evictions out, task by task, until enough is released: the running totals.

Pure but for the evictor it is given. Rule: docs/reference/evictions.md#running-totals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.agent.strategies.eviction.evictor import EvictionState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.eviction.evictor import Evictor

USED, REQUESTED = "podUsed", "podResourceRequest"
"""What a task wants released: amounts in use, or amounts that were asked for."""

MESSAGE = "trigger by koordlet feature {feature}, kill pod: {name}"


@dataclass(frozen=True, slots=True)
class EvictionVictim:
    """A pod that a task may evict, and what each task of the round says it would release.

    Attributes:
        pod: the pod.
        amounts: milli-cores or bytes by target, then resource.
    """

    pod: PodState
    amounts: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class EvictionTask:
    """What one feature wants.

    Attributes:
        feature: its gate, which is also what pods allow or not.
        target: :data:`USED` or :data:`REQUESTED`.
        release: milli-cores or bytes by resource; only positive amounts count.
        victims: in the order of eviction.
    """

    feature: str
    target: str
    release: Mapping[str, int]
    victims: Sequence[EvictionVictim]


@dataclass(slots=True)
class EvictionOutcome:
    """What a round did.

    Attributes:
        started: pods whose eviction was begun, by feature.
        counted: pods evicted earlier that count without being touched.
        refused: pods that the API or a disruption budget held on to.
        released: totals by target, then resource.
        short: what is still to be released, by feature, then resource.
    """

    started: dict[str, list[str]] = field(default_factory=dict)
    counted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    released: dict[str, Counter[str]] = field(default_factory=dict)
    short: dict[str, dict[str, int]] = field(default_factory=dict)


def execute(tasks: Sequence[EvictionTask], evictor: Evictor) -> EvictionOutcome:
    """Evicts in the order of tasks and victims, and stops where each task has enough.

    A pod counts for every task at once. One whose eviction was begun before counts as long as it is
    under way or has been seen to end; one that was refused does not, and the next one goes.
    """
    outcome = EvictionOutcome()
    handled: set[str] = set()
    for task in tasks:
        _execute_one(task, evictor, outcome, handled)
    for task in tasks:
        rest = remaining(task, outcome.released)
        if rest:
            outcome.short[task.feature] = rest
    return outcome


def remaining(task: EvictionTask, released: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """What of a task's amounts the totals do not cover; empty when it is done."""
    done = released.get(task.target, {})
    left = {name: amount - done.get(name, 0) for name, amount in task.release.items()}
    return {name: amount for name, amount in left.items() if amount > 0 and task.release[name] > 0}


def merged(parts: Sequence[tuple[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """What a pod releases for all tasks: of one target the most of each resource."""
    most: dict[str, dict[str, int]] = {}
    for target, amounts in parts:
        into = most.setdefault(target, {})
        for name, amount in amounts.items():
            into[name] = max(into.get(name, 0), amount)
    return most


def _execute_one(
    task: EvictionTask, evictor: Evictor, outcome: EvictionOutcome, handled: set[str]
) -> None:
    for victim in task.victims:
        if not remaining(task, outcome.released):
            return
        if victim.pod.uid in handled:
            continue
        handled.add(victim.pod.uid)
        if _evict(task, victim.pod, evictor, outcome):
            for target, amounts in victim.amounts.items():
                outcome.released.setdefault(target, Counter()).update(amounts)


def _evict(task: EvictionTask, pod: PodState, evictor: Evictor, outcome: EvictionOutcome) -> bool:
    """Whether the pod's amounts count."""
    fate = evictor.fate(pod.uid)
    if fate in (EvictionState.STARTED, EvictionState.UNDER_WAY, EvictionState.GONE):
        outcome.counted.append(pod.key)
        return True
    message = MESSAGE.format(feature=task.feature, name=pod.pod.metadata.name)
    fate = evictor.evict(pod, task.feature, message)
    if fate is EvictionState.REFUSED:
        outcome.refused.append(pod.key)
        return False
    if fate is EvictionState.STARTED:
        outcome.started.setdefault(task.feature, []).append(pod.key)
    else:
        outcome.counted.append(pod.key)
    return True
