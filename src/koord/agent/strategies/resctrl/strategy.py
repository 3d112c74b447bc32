# SPDX-License-Identifier: Apache-2.0
"""Gives the QoS classes their part of the last-level cache and of memory bandwidth.

Rule: docs/reference/strategies.md#resctrl-classes. What the hardware cannot do exactly is widened
to what it can, and told. Claims: the groups are one scope, the members of a pod another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.executor.claim import Claim
from koord.agent.hooks.reconciliation.sandbox import sandbox_directory
from koord.agent.host.kernel.features import Feature
from koord.agent.strategies import readings
from koord.agent.strategies.resctrl import decision
from koord.agent.strategies.resctrl.capabilities import ResctrlCapabilities, read_facts
from koord.api.protocol import keys
from koord.base.errors import Code, KoordError
from koord.kernels.resctrl import ClassPolicy, GroupPlan, plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.qos_strategy import ResctrlQOS, ResourceQOSStrategy

_GROUPS = "groups"


class ResctrlStrategy:
    """Claims the resctrl groups of QoS classes, and which pods are in them.

    It looks at classes only, so no age of measurements matters.
    """

    name = "resctrl"
    gate = "RdtResctrl"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.reconcile_interval_seconds
        self._facts: ResctrlCapabilities | None = None
        self._scopes: set[str] = set()

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        strategy = readings.slo_spec(tick).resource_qos_strategy
        if strategy is None:
            raise KoordError("NodeSLO", "resourceQOSStrategy", None, "one", Code.NOT_FOUND)
        features = tick.machine.features
        if not features.has(Feature.RESCTRL):
            return {"state": "unsupported", "why": features.missing[Feature.RESCTRL]}
        if self._facts is None:
            self._facts = read_facts(tick.machine.roots)
        config = _by_group(strategy)
        groups = _planned(self._facts, config)
        hands.executor.state(self.name, _GROUPS, _group_claims(groups))
        members = _members(tick, config)
        for uid, claims in members.items():
            hands.executor.state(self.name, uid, claims)
        for uid in self._scopes - members.keys():
            hands.executor.withdraw(self.name, uid)
        self._scopes = set(members)
        notes = [f"{group.name}: {note}" for group in groups for note in group.notes]
        notes += [
            f"{name}: cache range {own.cat_range_start_percent} to {own.cat_range_end_percent}"
            " is none"
            for name, own in config.items()
            if own is not None and not _is_range(own)
        ]
        lines = {group.name: [line.strip() for line in group.lines] for group in groups}
        return {"groups": lines, "pods": len(members), **({"notes": notes} if notes else {})}

    def stop(self, hands: Actuators) -> None:
        """Takes all claims back: groups that koord made go, and their threads with them."""
        self._scopes.clear()
        hands.executor.withdraw(self.name)


def _by_group(strategy: ResourceQOSStrategy) -> dict[str, ResctrlQOS | None]:
    classes = (strategy.lsr_class, strategy.ls_class, strategy.be_class)
    return {
        name: section.resctrl_qos if section else None
        for name, section in zip(decision.GROUPS, classes, strict=True)
    }


def _planned(
    facts: ResctrlCapabilities, config: Mapping[str, ResctrlQOS | None]
) -> list[GroupPlan]:
    try:
        return plan(
            facts.vendor,
            facts.info.limits,
            facts.info.l3_ids,
            [_policy(name, own, facts) for name, own in config.items()],
        )
    except ValueError as error:
        raise KoordError.wrap("NodeSLO", "resourceQOSStrategy", error) from None


def _policy(name: str, own: ResctrlQOS | None, facts: ResctrlCapabilities) -> ClassPolicy:
    if own is None:
        return ClassPolicy(name)
    mba = own.mba_percent if facts.info.has_bandwidth else None
    if not _is_range(own):
        # One class's mistake is not the others'.
        return ClassPolicy(name, mba_percent=mba)
    return ClassPolicy(name, own.cat_range_start_percent, own.cat_range_end_percent, mba)


def _is_range(own: ResctrlQOS) -> bool:
    start, end = own.cat_range_start_percent, own.cat_range_end_percent
    return start is None or end is None or 0 <= start < end <= 100


def _group_claims(groups: list[GroupPlan]) -> list[Claim]:
    claims = [Claim("resctrl.group", group.name, 1, "QoS class") for group in groups]
    for group in groups:
        claims += [
            Claim("resctrl.schemata", group.name, line.strip(), "QoS class") for line in group.lines
        ]
    return claims


def _members(tick: Tick, config: Mapping[str, ResctrlQOS | None]) -> dict[str, list[Claim]]:
    """The cgroups of each pod that is in a group: those of its containers and its sandbox."""
    pods = tick.snapshot.pods.value
    on = [own is not None and own.enable is True for own in config.values()]
    group = decision.groups(
        np.array([decision.CLASSES.index(pod.qos_default) for pod in pods], np.int64),
        np.array([pod.active for pod in pods], np.bool_),
        np.array([keys.RESCTRL in pod.pod.metadata.annotations for pod in pods], np.bool_),
        np.array([on] * len(pods), np.bool_).reshape(len(pods), len(decision.GROUPS)),
    )
    found: dict[str, list[Claim]] = {}
    for pod, at in zip(pods, group.tolist(), strict=True):
        if at != decision.NO_GROUP:
            found[pod.uid] = [_member(decision.GROUPS[at], each) for each in _cgroups(tick, pod)]
    return found


def _cgroups(tick: Tick, pod: PodState) -> list[str]:
    sandbox = sandbox_directory(tick.machine.hierarchy, pod)
    return [each for each in (*(c.directory for c in pod.containers), sandbox) if each]


def _member(group: str, directory: str) -> Claim:
    return Claim("resctrl.members", group, directory, "QoS class of the pod")
