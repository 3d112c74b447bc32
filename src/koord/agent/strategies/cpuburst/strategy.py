# SPDX-License-Identifier: Apache-2.0
"""Lets throttled containers exceed their CPU limit for a while.

Rule: docs/reference/strategies.md#cpu-burst. Claims of a pod are one scope, its UID. A raised
quota lies in the layer above what limit and normalization make of the file, so neither is ever
overwritten; a pod's quota is raised by what its containers' are, from its own base. A quota above
what it should be that nobody claims was left by another agent: the limit is claimed until the file
says it again.

Bursts are claimed as they are wanted. What the kernel takes of them is the executor's to find out,
and the series says what the files said when they were last written or compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.executor.claim import Claim, Layer
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies import one_node, pod_resources, readings
from koord.agent.strategies.cpuburst import burst_containers, decision
from koord.agent.strategies.cpuburst.burst_limiter import BurstLimiter, BurstUse
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from koord.agent.executor.target import Value
    from koord.agent.strategies.cpuburst.burst_containers import BurstColumns, BurstContainer
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.slo_strategies import CPUBurstStrategy

    Ints = NDArray[np.int64]

_QUOTA, _BURST, _PERIOD = "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.cfs_period_us"


class _QuotaColumns(NamedTuple):
    """What claims are made of, in microseconds; -1 where there is no limit.

    Attributes:
        bases, quotas: a container each: its quota without any raising, and with it.
        bursts: a container each.
        pod_bases: a pod that has such containers each.
        left: directories whose quota another agent left above what it should be.
    """

    bases: list[int]
    quotas: list[int]
    bursts: list[int]
    pod_bases: list[int]
    left: frozenset[str]


class CPUBurst:
    """Claims burst and, for throttled containers, a raised CPU quota.

    Without the node's usage nothing is raised further; without a container's throttling its quota
    remains. Pods that left the list lose their claims. Claims are made anew only when pods,
    settings or figures changed.
    """

    name = "cpuburst"
    gate = "CPUBurst"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.reconcile_interval_seconds
        self._options = options
        self._limiter = BurstLimiter()
        self._roster: BurstColumns | None = None
        self._limits_us: list[int] = []
        self._figures = _QuotaColumns([], [], [], [], frozenset())
        self._claims: dict[str, list[Claim]] = {}
        self._raised: dict[str, int] = {}
        # The executor's claims as they were when these were stated.
        self._stated = -1
        self._state = decision.CPUPoolState.UNKNOWN
        self._exported: list[Value | None] = []

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        config = readings.slo_spec(tick).cpu_burst_strategy
        if config is None:
            raise KoordError("NodeSLO", "cpuBurstStrategy", None, "a strategy", Code.NOT_FOUND)
        before = self._roster
        self._roster = who = burst_containers.burst_columns(tick, config, before)
        if who is not before:
            self._limits_us = _limits_us(hands, who)
        figures = self._figured(tick, hands, who, config, changed=who is not before)
        gone: Iterable[str] = ()
        anew = who is not before or figures != self._figures
        if anew:
            self._figures = figures
            gone = self._claims.keys() - who.rows.keys()
            self._claim(who, figures)
        self._show_bursts(hands, who, anew=who is not before)
        # Said again where a cgroup went, and took claims along, since they were said.
        if anew or hands.executor.generation != self._stated:
            for uid, claims in self._claims.items():
                hands.executor.state(self.name, uid, claims)
            for uid in gone:
                hands.executor.withdraw(self.name, uid)
            self._stated = hands.executor.generation
        containers = len(who.members)
        return {"node": self._state.name.lower(), "containers": containers,
                "raised_us": self._raised}  # fmt: skip

    def stop(self, hands: Actuators) -> None:
        """Takes all claims back."""
        self._roster = None
        self._claims, self._stated = {}, -1
        hands.executor.withdraw(self.name)

    def _figured(
        self,
        tick: Tick,
        hands: Actuators,
        who: BurstColumns,
        config: CPUBurstStrategy,
        *,
        changed: bool,
    ) -> _QuotaColumns:
        """The figures of this round; files of pods are looked at while one may be left too high."""
        self._state = burst_containers.node_state(tick, config, who, self.interval_seconds)
        count = len(who.members)
        # What is claimed, or else what the kubelet gives.
        claimed = hands.executor.bases(_QUOTA, who.directories, Layer.RAISE)
        pairs = zip(claimed, self._limits_us, strict=True)
        bases = [limit_us if base is None else base for base, limit_us in pairs]
        quotas, found = self._quotas(tick, hands, who, one_node.column(bases[:count]))
        wanted = quotas.tolist()
        if changed or self._figures.left:
            extra = [sum(wanted[at] - bases[at] for at in places) for places in who.rows.values()]
            said = hands.executor.values(_QUOTA, who.directories[count:])
            found |= {count + at: each for at, each in enumerate(said) if isinstance(each, int)}
            wanted += [base + more for base, more in zip(bases[count:], extra, strict=True)]
        left = frozenset(
            who.directories[at]
            for at, quota in found.items()
            if claimed[at] is None and quota > wanted[at] == bases[at] > 0
        )
        return _QuotaColumns(
            bases[:count], quotas.tolist(), who.bursts.tolist(), bases[count:], left
        )

    def _quotas(
        self, tick: Tick, hands: Actuators, who: BurstColumns, bases: Ints
    ) -> tuple[Ints, dict[int, int]]:
        """Targets in microseconds, -1 where there is no limit, and what files say, by container."""
        targets = bases.copy()
        chosen = np.flatnonzero(who.limited & (bases > 0)).tolist()
        if not chosen:
            return targets, {}
        said = hands.executor.values(_QUOTA, [who.directories[at] for at in chosen])
        found = {
            at: number for at, number in zip(chosen, said, strict=True) if isinstance(number, int)
        }
        rows = one_node.column(list(found))
        if found:
            operation = self._operations(tick, who, rows, self._state)
            current = one_node.column(list(found.values()))
            targets[rows] = decision.quota_targets(
                operation, bases[rows], current, who.percent[rows]
            )
        return targets, found

    def _operations(
        self, tick: Tick, who: BurstColumns, rows: Ints, state: decision.CPUPoolState
    ) -> Ints:
        usage = readings.last_by_label(tick, MetricKind.CONTAINER_CPU_USAGE)
        throttled = readings.last_by_label(tick, MetricKind.CONTAINER_CPU_THROTTLED)
        chosen = [who.members[at] for at in rows.tolist()]
        ids = [member.container.id for member in chosen]
        percent = decision.usage_percents(
            np.array([usage.get(each, math.nan) for each in ids], np.float64),
            who.limit_milli[rows],
        )
        uses = [
            BurstUse(
                member.container.id,
                member.config.cfs_quota_burst_period_seconds,
                member.config.cfs_quota_burst_percent,
                used,
            )
            for member, used in zip(chosen, percent.tolist(), strict=True)
        ]
        return decision.operations(
            who.raises[rows],
            np.array(self._limiter.permitted(uses, tick.now_seconds), np.bool_),
            np.array([throttled.get(each, math.nan) for each in ids], np.float64),
            np.full(len(chosen), int(state), np.int64),
        )

    def _claim(self, who: BurstColumns, figures: _QuotaColumns) -> None:
        """Makes the claims, and tells of them."""
        bases, quotas, bursts, pod_bases, left = figures
        self._options.instruments.forget_quotas()
        self._claims, self._raised = {}, {}
        for (uid, places), base in zip(who.rows.items(), pod_bases, strict=True):
            extra = sum(quotas[at] - bases[at] for at in places)
            total = sum(bursts[at] for at in places)
            directory = who.members[places[0]].pod.directory
            claims = _pod_claims(directory, base, extra, total)
            for at in places:
                claims += self._container_claims(who.members[at], bases[at], quotas[at], bursts[at])
            places_us = {who.members[at].container.directory: bases[at] for at in places}
            places_us[directory] = base
            claims += [
                Claim(_QUOTA, place, us, "the limit, which the file exceeds")
                for place, us in places_us.items()
                if place in left
            ]
            self._claims[uid] = claims

    def _container_claims(
        self, member: BurstContainer, base: int, target: int, burst: int
    ) -> list[Claim]:
        directory = member.container.directory
        reason = f"burst policy {member.config.policy or 'none'}"
        claims = [Claim(_BURST, directory, burst, reason)]
        if target > base > 0:
            claims.append(Claim(_QUOTA, directory, target, "throttled", Layer.RAISE))
            self._options.instruments.quota(member.pod, member.container, target)
            self._raised[f"{member.pod.key}/{member.container.name}"] = target
        return claims

    def _show_bursts(self, hands: Actuators, who: BurstColumns, *, anew: bool) -> None:
        """Tells of the bursts that files say, where one is another than it was."""
        shown = hands.executor.last_values(_BURST, who.directories)
        if not anew and shown == self._exported:
            return
        self._exported = shown
        self._options.instruments.forget_bursts()
        for member, burst in zip(who.members, shown[: len(who.members)], strict=True):
            if isinstance(burst, int):
                self._options.instruments.burst(member.pod, member.container, burst)


def _pod_claims(directory: str, base: int, extra_us: int, burst_us: int) -> list[Claim]:
    claims = [Claim(_BURST, directory, burst_us, "sum of its containers")]
    if base > 0 and extra_us > 0:
        claims.append(Claim(_QUOTA, directory, base + extra_us, "containers raised", Layer.RAISE))
    return claims


def _limits_us(hands: Actuators, who: BurstColumns) -> list[int]:
    """The quotas that the kubelet gives, in its own period."""
    periods = hands.executor.values(_PERIOD, who.directories)
    return [
        pod_resources.quota_us(milli, period if isinstance(period, int) else decision.PERIOD_US)
        for milli, period in zip(who.quota_milli, periods, strict=True)
    ]
