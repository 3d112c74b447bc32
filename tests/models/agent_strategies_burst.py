# SPDX-License-Identifier: Apache-2.0
"""Burst of one container in plain Python. Rule: docs/reference/strategies.md#cpu-burst."""

from __future__ import annotations

from collections.abc import Sequence

Pod = tuple[float | None, int, str]  # usage in cores, CPU request in milli-cores, raw class


def node_state(node: float | None, processors: int, pods: Sequence[Pod], threshold: int) -> str:
    if node is None:
        return "UNKNOWN"
    total = float(processors)
    outside = 0.0
    own = 0.0
    for usage, request, qos in pods:
        if qos in ("LSE", "LSR"):
            own += request / 1000
        if qos in ("LSE", "LSR", "BE") and usage is not None:
            outside += usage
    total -= own
    ratio = (node - outside) / total if total > 0 else 1.0
    share = threshold / 100
    if ratio >= share:
        return "OVERLOAD"
    return "COOLING" if ratio >= share * 0.9 else "IDLE"


def burst(limit_milli: int, percent: int, enabled: bool) -> int:
    if not enabled or limit_milli <= 0:
        return 0
    return int((limit_milli / 1000) * (percent / 100) * 100_000)


def operation(enabled: bool, permitted: bool, throttled: float | None, state: str) -> str:
    if not enabled:
        return "RESET"
    if not permitted:
        wanted = "DOWN"
    else:
        wanted = "UP" if throttled is not None and throttled > 0 else "REMAIN"
    if state == "OVERLOAD" and wanted in ("UP", "REMAIN"):
        return "DOWN"
    if state in ("COOLING", "UNKNOWN") and wanted == "UP":
        return "REMAIN"
    return wanted


def target(what: str, base: int, current: int, percent: int) -> int:
    ceiling = int(base * float(percent) / 100) if percent > 100 else base
    wanted = {
        "UP": int(current * 1.2),
        "DOWN": int(current * 0.8),
        "RESET": base,
        "REMAIN": current,
    }[what]
    return max(base, min(wanted, ceiling))


class Bucket:
    """Tokens of one container; seconds that are no whole one are kept for the next round."""

    def __init__(self, period: int, percent: int, now: float) -> None:
        self.capacity = period * (percent - 100)
        self.tokens = self.capacity // 4
        self.at = now

    def allow(self, now: float, usage_percent: int) -> bool:
        seconds = int(now - self.at)
        if usage_percent >= 100:
            self.tokens -= (usage_percent - 100) * seconds
        elif usage_percent < 60:
            self.tokens += (100 - usage_percent) * seconds
        self.tokens = max(-self.capacity, min(self.capacity, self.tokens))
        self.at += seconds
        return self.tokens > 0
