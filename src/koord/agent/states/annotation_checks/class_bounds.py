# SPDX-License-Identifier: Apache-2.0
"""Annotations that are judged by what the NodeSLO gives the pod's class: no pod gets more by them.

Rule: docs/reference/hooks.md#what-a-class-has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import annotation, keys
from koord.api.protocol.agent import ResctrlResource, Schemata, cpu_qos, resctrl
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.qos_strategy import ResctrlQOS, ResourceQOS, ResourceQOSStrategy

CLASS_CHECKED = frozenset({keys.CPU_QOS, keys.RESCTRL})
_ALL = (0, 100)
_RANGE = 2


def class_problems(
    pod: PodState, strategy: ResourceQOSStrategy | None
) -> Iterator[tuple[str, KoordError]]:
    """Keys of annotations that are not obeyed, and why not.

    Args:
        pod: whose annotations.
        strategy: of the NodeSLO in force; None while it is not known, when nothing is judged.
    """
    if strategy is None:
        return
    there = pod.pod.metadata.annotations
    if keys.CPU_QOS in there and pod.qos is QoSClass.LS:
        error = _identity(pod, _class_identity(strategy))
        if error is not None:
            yield keys.CPU_QOS, error
    quality = _quality(pod, strategy)
    bound = quality.resctrl_qos if quality else None
    if keys.RESCTRL in there and bound is not None and bound.enable:
        error = _cache_and_bandwidth(pod, bound)
        if error is not None:
            yield keys.RESCTRL, error


def _quality(pod: PodState, strategy: ResourceQOSStrategy) -> ResourceQOS | None:
    return {
        QoSClass.LSE: strategy.lsr_class,
        QoSClass.LSR: strategy.lsr_class,
        QoSClass.LS: strategy.ls_class,
        QoSClass.BE: strategy.be_class,
    }.get(pod.qos_default)


def _class_identity(strategy: ResourceQOSStrategy) -> int:
    policy = (strategy.policies.cpu_policy if strategy.policies else None) or "groupIdentity"
    quality = strategy.ls_class.cpu_qos if strategy.ls_class else None
    if policy != "groupIdentity" or quality is None or not quality.enable:
        return 0
    return quality.group_identity or 0


def _identity(pod: PodState, most: int) -> KoordError | None:
    try:
        own = cpu_qos(pod.pod)
    except KoordError:
        return None  # Hooks tell of it.
    identity = own.group_identity if own is not None and own.enable else None
    if identity is None or identity <= most:
        return None
    field = f"{annotation.field_of(keys.CPU_QOS)}.groupIdentity"
    return KoordError(pod.pod.title, field, identity, f"at most {most}, as the class LS has")


def _cache_and_bandwidth(pod: PodState, bound: ResctrlQOS) -> KoordError | None:
    """A group of its own has what it does not name without limit, and takes a pod from its class.

    So the pod must name what its class has a part of; also a malformed annotation is refused.
    """
    start, end = bound.cat_range_start_percent, bound.cat_range_end_percent
    cache = _ALL if start is None or end is None else (start, end)
    most = _ALL[1] if bound.mba_percent is None else bound.mba_percent
    if cache == _ALL and most == _ALL[1]:
        return None
    try:
        own = resctrl(pod.pod)
    except KoordError as error:
        return error.copy()
    field = annotation.field_of(keys.RESCTRL)
    for row in _rows(own.llc) if cache != _ALL else ():
        if not _within(row.range, cache):
            expected = f"a range within {list(cache)}, which its class has"
            return KoordError(pod.pod.title, f"{field}.llc", row.range, expected)
    for row in _rows(own.mb) if most != _ALL[1] else ():
        if not 0 < row.percent <= most:
            expected = f"1 to {most}, as its class has"
            return KoordError(pod.pod.title, f"{field}.mb", row.percent, expected)
    return None


def _rows(resource: ResctrlResource | None) -> list[Schemata]:
    """For all cache domains, then of single ones."""
    every = resource.schemata if resource is not None else None
    return [every or Schemata(), *(resource.schemata_per_cache if resource is not None else [])]


def _within(percents: list[int], cache: tuple[int, int]) -> bool:
    return len(percents) == _RANGE and cache[0] <= percents[0] < percents[1] <= cache[1]
