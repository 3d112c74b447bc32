# SPDX-License-Identifier: Apache-2.0
"""The quota tree's answers for people: why a pod was refused, how a runtime came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from koord.kernels.quantity import Format, Quantity

_FORMATS = {"memory": Format.BINARY_SI}


class Verdict(IntEnum):
    """The first check that failed; the numbers are those of ``koord::quota::Verdict``."""

    ADMITTED = 0
    OVER_RUNTIME = 1
    OVER_MIN = 2
    OVER_PARENT_RUNTIME = 3
    DETACHED = 4


@dataclass(frozen=True)
class Decision:
    """The answer to "does this pod fit?".

    Attributes:
        verdict: the first check that failed.
        group: the group the pod is charged to.
        path: names from the group whose limit is exceeded down to ``group``; empty if admitted.
        exceeded: the resources in which it is, sorted.
        limit: what use was held against.
        used: the use before the pod.
        request: the pod's request in the resources of the group's ``max``.
    """

    verdict: Verdict
    group: str
    path: tuple[str, ...]
    exceeded: tuple[str, ...]
    limit: Mapping[str, int]
    used: Mapping[str, int]
    request: Mapping[str, int]

    def __bool__(self) -> bool:
        return self.verdict is Verdict.ADMITTED

    @property
    def reason(self) -> str:
        """The scheduler's message, ``""`` if admitted."""
        asked = f"pod's request: {_listed(self.request)}, exceedDimensions: {_go(self.exceeded)}"
        limit, used = _listed(self.limit), _listed(self.used)
        match self.verdict:
            case Verdict.OVER_RUNTIME:
                return (
                    f"Insufficient quotas, quotaName: {self.group}, runtime: {limit}, "
                    f"used: {used}, {asked}"
                )
            case Verdict.OVER_MIN:
                return (
                    f"Insufficient non-preemptible quotas, quotaName: {self.group}, min: {limit}, "
                    f"nonPreemptibleUsed: {used}, {asked}"
                )
            case Verdict.OVER_PARENT_RUNTIME:
                return (
                    f"Insufficient quotas, quotaNameTopo: {_go(self.path)}, runtime: {limit}, "
                    f"used: {used}, {asked}"
                )
            case Verdict.DETACHED:
                return f"quota {self.group} has an ancestor that does not exist"
            case _:
                return ""


@dataclass(frozen=True)
class Share:
    """One child on the explained level: weight, limited request, floor and runtime."""

    weight: int
    request: int
    floor: int
    runtime: int


@dataclass(frozen=True)
class Round:
    """One round of the filling: the pool, and what each hungry child of the class was given.

    A child keeps only what it asked for; the rest is the pool of the next round.
    """

    priority: int
    pool: int
    grants: Mapping[str, int]


@dataclass(frozen=True)
class Explanation:
    """How one level shared out one resource; ``str()`` gives it in lines."""

    group: str
    resource: str
    parent: str
    total: int
    shares: Mapping[str, Share]
    rounds: tuple[Round, ...]
    idle: int

    def __str__(self) -> str:
        own = self.shares[self.group]
        lines = [
            f"{self.parent} shares out {self._text(self.total)} {self.resource} among "
            f"{len(self.shares)}; {self.group} asks for {self._text(own.request)}, "
            f"keeps at least {self._text(min(own.floor, own.runtime))}"
        ]
        for number, step in enumerate(self.rounds, 1):
            grant = step.grants.get(self.group)
            got = "takes no part" if grant is None else f"is given {self._text(grant)}"
            lines.append(
                f"round {number}: {self._text(step.pool)} to {len(step.grants)} of priority "
                f"{step.priority}; {self.group} {got}"
            )
        lines.append(f"runtime {self._text(own.runtime)}, {self._text(self.idle)} stay idle")
        return "\n".join(lines)

    def _text(self, amount: int) -> str:
        return quantity_text(self.resource, amount)


def quantity_text(resource: str, amount: int) -> str:
    """An amount as a canonical quantity: of milli-units for cpu, with binary suffix for memory."""
    if resource == "cpu":
        return str(Quantity.from_milli(amount))
    return str(Quantity.from_value(amount, _FORMATS.get(resource, Format.DECIMAL_SI)))


def _listed(amounts: Mapping[str, int]) -> str:
    parts = (f"{name}:{quantity_text(name, amounts[name])}" for name in sorted(amounts))
    return ",".join(parts) or "<empty>"


def _go(words: tuple[str, ...]) -> str:
    return f"[{' '.join(words)}]"
