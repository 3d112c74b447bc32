# SPDX-License-Identifier: Apache-2.0
"""Lets throttled containers exceed their CPU limit for a while.

Rule: spec agent-qos, section 12. Claims of a pod are one scope, its UID. A raised quota lies in the
layer above what limit and normalization make of the file, so neither is ever overwritten; a pod's
quota is raised by what its containers' are, from its own base.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.executor.claim import Claim, Layer
from koord.agent.metrics.kinds import Kind
from koord.agent.strategies import readings
from koord.agent.strategies.cpuburst import decision, inputs
from koord.agent.strategies.cpuburst.limiter import Limiter, Use
from koord.base.errors import Code, KoordError
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.agent.strategies.cpuburst.inputs import Member, Roster
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Hands, Tick

    Ints = NDArray[np.int64]

_QUOTA, _BURST = "cpu.cfs_quota_us", "cpu.cfs_burst_us"


class _Figures(NamedTuple):
    """What claims are made of, in microseconds; -1 where there is no limit.

    Attributes:
        bases, quotas: a container each: its quota without any raising, and with it.
        bursts: a container each.
        pod_bases: a pod that has such containers each.
    """

    bases: list[int]
    quotas: list[int]
    bursts: list[int]
    pod_bases: list[int]


class CPUBurst:
    """The strategy; see :class:`koord.agent.strategies.strategy.Strategy`.

    Without the node's usage nothing is raised further; without a container's throttling its quota
    remains. Pods that left the list lose their claims. Claims are made anew only when pods,
    settings or figures changed.
    """

    name = "cpuburst"
    gate = "CPUBurst"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.reconcile_interval_seconds
        self._options = options
        self._limiter = Limiter()
        self._roster: Roster | None = None
        self._figures = _Figures([], [], [], [])
        self._claims: dict[str, list[Claim]] = {}
        self._raised: dict[str, int] = {}

    def run(self, tick: Tick, hands: Hands) -> Mapping[str, object]:
        """One round; see the protocol."""
        config = readings.slo_spec(tick).cpu_burst_strategy
        if config is None:
            raise KoordError("NodeSLO", "cpuBurstStrategy", None, "a strategy", Code.NOT_FOUND)
        before = self._roster
        self._roster = who = inputs.roster(tick, config, before)
        state = inputs.node_state(tick, config, who, self.interval_seconds)
        all_bases = _bases(hands, who)
        bases = _column(all_bases[: len(who.members)])
        quotas = self._quotas(tick, hands, who, bases, state)
        clamp = tick.machine.hierarchy.version is Version.V2
        # Cgroup v2 refuses a burst above the quota that it goes with.
        bursts = decision.within_quota(who.bursts, quotas) if clamp else who.bursts
        pod_bases = all_bases[len(who.members) :]
        figures = _Figures(bases.tolist(), quotas.tolist(), bursts.tolist(), pod_bases)
        gone: Iterable[str] = ()
        if who is not before or figures != self._figures:
            self._figures = figures
            gone = self._claims.keys() - who.rows.keys()
            self._claim(who, figures, clamp)
        for uid, claims in self._claims.items():
            hands.executor.state(self.name, uid, claims)
        for uid in gone:
            hands.executor.withdraw(self.name, uid)
        containers = len(who.members)
        return {"node": state.name.lower(), "containers": containers, "raised_us": self._raised}

    def stop(self, hands: Hands) -> None:
        """Takes all claims back."""
        self._roster = None
        self._claims = {}
        hands.executor.withdraw(self.name)

    def _quotas(
        self, tick: Tick, hands: Hands, who: Roster, bases: Ints, state: decision.NodeState
    ) -> Ints:
        """Target of each container in microseconds; -1 where there is no limit."""
        targets = bases.copy()
        chosen = np.flatnonzero(who.limited & (bases > 0)).tolist()
        said = hands.executor.values(_QUOTA, [who.directories[at] for at in chosen])
        found = {
            at: number for at, number in zip(chosen, said, strict=True) if isinstance(number, int)
        }
        rows = _column(list(found))
        if found:
            operation = self._operations(tick, who, rows, state)
            current = _column(list(found.values()))
            targets[rows] = decision.quota_targets(
                operation, bases[rows], current, who.percent[rows]
            )
        return targets

    def _operations(self, tick: Tick, who: Roster, rows: Ints, state: decision.NodeState) -> Ints:
        usage = readings.last_by_label(tick, Kind.CONTAINER_CPU_USAGE)
        throttled = readings.last_by_label(tick, Kind.CONTAINER_CPU_THROTTLED)
        chosen = [who.members[at] for at in rows.tolist()]
        ids = [member.container.id for member in chosen]
        percent = decision.usage_percents(
            np.array([usage.get(each, math.nan) for each in ids], np.float64),
            who.limit_milli[rows],
        )
        uses = [
            Use(
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

    def _claim(self, who: Roster, figures: _Figures, clamp: bool) -> None:
        """Makes the claims, and tells of them."""
        bases, quotas, bursts, pod_bases = figures
        self._options.instruments.forget_bursts()
        self._claims, self._raised = {}, {}
        for (uid, places), base in zip(who.rows.items(), pod_bases, strict=True):
            extra = sum(quotas[at] - bases[at] for at in places)
            total = sum(bursts[at] for at in places)
            directory = who.members[places[0]].pod.directory
            claims = _pod_claims(directory, base, extra, total, clamp)
            for at in places:
                claims += self._container_claims(who.members[at], bases[at], quotas[at], bursts[at])
            self._claims[uid] = claims

    def _container_claims(self, member: Member, base: int, target: int, burst: int) -> list[Claim]:
        directory = member.container.directory
        reason = f"burst policy {member.config.policy or 'none'}"
        claims = [Claim(_BURST, directory, burst, reason)]
        self._options.instruments.burst(member.pod, member.container, burst)
        if target > base > 0:
            claims.append(Claim(_QUOTA, directory, target, "throttled", Layer.RAISE))
            self._options.instruments.quota(member.pod, member.container, target)
            self._raised[f"{member.pod.key}/{member.container.name}"] = target
        return claims


def _pod_claims(
    directory: str, base: int, extra_us: int, burst_us: int, clamp: bool
) -> list[Claim]:
    quota = base + extra_us if base > 0 else base
    # The sum of bursts that are within their quotas may still exceed what the pod has.
    burst = min(burst_us, quota) if clamp and quota > 0 else burst_us
    claims = [Claim(_BURST, directory, burst, "sum of its containers")]
    if base > 0 and extra_us > 0:
        claims.append(Claim(_QUOTA, directory, quota, "containers raised", Layer.RAISE))
    return claims


def _bases(hands: Hands, who: Roster) -> list[int]:
    """Quotas without any raising: what is claimed, or else what the kubelet gives."""
    composed = hands.executor.bases(_QUOTA, who.directories, Layer.RAISE)
    pairs = zip(composed, who.limit_us, strict=True)
    return [limit_us if base is None else base for base, limit_us in pairs]


def _column(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
