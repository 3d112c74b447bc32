# SPDX-License-Identifier: Apache-2.0
"""How fast the number of pods may follow what is recommended: windows, rates, bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from koord.base.documents import Document

DOWN_WINDOW_SECONDS = 300.0
_LEAST_LIMIT, _LIMIT_FACTOR = 4, 2
# As far back as any window (3600) or period (1800) may reach.
_KEPT_SECONDS = 3600.0
_MOST_KEPT = 1000
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_UP_LIMIT = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_DOWN_LIMIT = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent "
    "recommendation",
)
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_READY = ("ReadyForNewScale", "recommended size matches current size")


@dataclass
class ScaleHistory:
    """What was recommended and done, in wall seconds; lost at a restart, as in Kubernetes.

    Attributes:
        recommended: time and number of pods.
        changes: time and by how many pods the number was changed.
    """

    recommended: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def changed(self, seconds: float, now: float) -> int:
        """By how much the number has changed within the last seconds."""
        return sum(change for time, change in self.changes if time > now - seconds)

    def prune(self, now: float) -> None:
        """Forgets what no window reaches any more."""
        for entries in (self.recommended, self.changes):
            entries[:] = [e for e in entries if e[0] >= now - _KEPT_SECONDS][-_MOST_KEPT:]


@dataclass(frozen=True)
class LimitedReplicas:
    """What a recommendation comes to.

    Attributes:
        able: reason and message of the condition AbleToScale.
        limited: whether bounds or rates hold it back; reason and message of ScalingLimited.
    """

    replicas: int
    able: tuple[str, str]
    limited: bool
    why: tuple[str, str]


def pace(
    current: int, recommended: int, least: int, most: int, behavior: Document | None,
    history: ScaleHistory, now: float,
) -> LimitedReplicas:  # fmt: skip
    """How many pods there should be now, given what is recommended; takes note of it.

    Args:
        current: the number now.
        recommended: what the metrics ask for.
        least: of pods.
        most: of pods.
        behavior: of the spec, with its defaults; None for Kubernetes' own.
        history: of this scaler.
        now: wall seconds.
    """
    if behavior is None:
        held = max([recommended, *_since(history, now - DOWN_WINDOW_SECONDS)])
        able = _DOWN_STABILIZED
        bounds = least, min(most, max(_LIMIT_FACTOR * current, _LEAST_LIMIT))
        above = _UP_LIMIT if bounds[1] < most else _TOO_MANY
        below = _TOO_FEW
    else:
        held = _stabilized(current, recommended, behavior, history, now)
        able = _UP_STABILIZED if recommended >= current else _DOWN_STABILIZED
        up = max(current, _up_limit(current, behavior["scaleUp"], history, now))
        down = min(current, _down_limit(current, behavior["scaleDown"], history, now))
        bounds = max(least, down), min(most, up)
        above = _UP_LIMIT if most > up else _TOO_MANY
        below = _DOWN_LIMIT if least < down else _TOO_FEW
    history.recommended.append((now, recommended))
    history.prune(now)
    able = _READY if held == recommended else able
    if held > bounds[1] and (behavior is None or held > current):
        return LimitedReplicas(bounds[1], able, True, above)
    if held < bounds[0] and (behavior is None or held < current):
        return LimitedReplicas(bounds[0], able, True, below)
    return LimitedReplicas(held, able, False, _WITHIN)


def _since(history: ScaleHistory, cutoff: float) -> list[int]:
    return [count for time, count in history.recommended if time >= cutoff]


def _stabilized(
    current: int, recommended: int, behavior: Document, history: ScaleHistory, now: float
) -> int:
    up_window = behavior["scaleUp"]["stabilizationWindowSeconds"]
    down_window = behavior["scaleDown"].get("stabilizationWindowSeconds", DOWN_WINDOW_SECONDS)
    lowest = highest = recommended
    for time, count in history.recommended:
        if time > now - up_window:
            lowest = min(lowest, count)
        if time > now - down_window:
            highest = max(highest, count)
    return min(max(current, lowest), highest)


def _up_limit(current: int, rules: Document, history: ScaleHistory, now: float) -> int:
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposed: list[int] = []
    for policy in rules["policies"]:
        began = current - history.changed(policy["periodSeconds"], now)
        if policy["type"] == "Pods":
            proposed.append(began + policy["value"])
        else:
            proposed.append(ceil(began * (1 + policy["value"] / 100)))
    return min(proposed) if rules.get("selectPolicy") == "Min" else max(proposed)


def _down_limit(current: int, rules: Document, history: ScaleHistory, now: float) -> int:
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposed: list[int] = []
    for policy in rules["policies"]:
        began = current - history.changed(policy["periodSeconds"], now)
        if policy["type"] == "Pods":
            proposed.append(began - policy["value"])
        else:
            proposed.append(int(began * (1 - policy["value"] / 100)))
    return max(proposed) if rules.get("selectPolicy") == "Min" else min(proposed)
