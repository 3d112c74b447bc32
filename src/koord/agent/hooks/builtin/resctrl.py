# SPDX-License-Identifier: Apache-2.0
"""Resctrl: a part of the cache and of the memory bandwidth for a single pod.

Rule: docs/reference/hooks.md#resctrl. The group follows the annotation: it is made with the pod,
its lines change with every edit, and it goes with the pod or the annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.target import RESCTRL_SCHEMATA
from koord.agent.executor.writers.resctrl import POD_GROUP_PREFIX
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage, PodContext
from koord.agent.hooks.pod_contexts import pod_of
from koord.api.protocol import agent, keys
from koord.kernels import resctrl

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.hooks.options import HookOptions
    from koord.api.protocol.agent import ResctrlConfig, ResctrlResource

_RANGE = 2


def lines_of(
    config: ResctrlConfig, info: resctrl.Info, vendor: resctrl.Vendor
) -> tuple[list[str], list[str]]:
    """Schemata lines of a pod, L3 first, and what could not be had.

    A table of which some cache domain has nothing is left out. After a bad range or percentage the
    rest of that table is left as it was set so far.
    """
    notes: list[str] = []
    l3 = _table(config.llc, info.l3_ids, notes, lambda row: _mask(info, row.range, notes))
    mb = None
    if info.has_bandwidth:
        mb = _table(config.mb, info.l3_ids, notes, lambda r: _share(vendor, info, r.percent, notes))
    lines = resctrl.Schemata(l3, mb).format().splitlines()
    return [line for line in lines if line], notes


def _table(
    requested: ResctrlResource | None,
    ids: list[int],
    notes: list[str],
    value: Callable[[agent.Schemata], int],
) -> dict[int, int] | None:
    values = dict.fromkeys(ids, 0)
    try:
        if requested is not None and requested.schemata is not None:
            values = dict.fromkeys(ids, value(requested.schemata))
        for row in requested.schemata_per_cache if requested is not None else []:
            if row.cache_id in values:
                values[row.cache_id] = value(row) or values[row.cache_id]
            else:
                notes.append(f"cache {row.cache_id} is not on this node")
    except ValueError as error:
        notes.append(str(error))
    return values if values and all(values.values()) else None


def _mask(info: resctrl.Info, percents: list[int], notes: list[str]) -> int:
    if len(percents) != _RANGE:
        return 0
    mask = resctrl.cache_mask(info.limits, *percents)
    if mask.widened:
        notes.append(f"range {percents} was widened to what the hardware takes")
    return mask.bits


def _share(vendor: resctrl.Vendor, info: resctrl.Info, percent: int, notes: list[str]) -> int:
    if not percent:
        return 0
    share = resctrl.bandwidth(vendor, info.limits, percent)
    if share.clamped:
        notes.append(f"{percent} percent was raised to what the hardware takes")
    return share.value


class Resctrl(BaseHook):
    """Answers the resctrl group and the schemata of pods that have the annotation."""

    name = "Resctrl"
    gate = "Resctrl"
    stages = frozenset(
        {
            HookStage.PRE_RUN_POD_SANDBOX,
            HookStage.PRE_CREATE_CONTAINER,
            HookStage.PRE_REMOVE_RUN_POD_SANDBOX,
        }
    )

    def __init__(self, options: HookOptions) -> None:
        self._options = options

    def pod(self, context: PodContext) -> HookResponse | None:
        """The pod's group and its lines.

        Raises:
            KoordError: the annotation is malformed.
        """
        if keys.RESCTRL not in context.annotations:
            return None
        found = self._options.resctrl_info()
        if found is None:
            return None
        lines, notes = lines_of(agent.resctrl(pod_of(context)), *found)
        answer = HookResponse(resctrl_group=POD_GROUP_PREFIX + context.uid)
        answer.reason = "; ".join(["resctrl annotation of the pod", *notes])
        if lines:
            answer.values[RESCTRL_SCHEMATA] = "\n".join(lines)
        return answer

    def container(self, context: ContainerContext) -> HookResponse | None:
        """The pod's group, for every thread of a container; also for the sandbox's."""
        if keys.RESCTRL not in context.pod.annotations or self._options.resctrl_info() is None:
            return None
        group = POD_GROUP_PREFIX + context.pod.uid
        return HookResponse(resctrl_group=group, reason="resctrl annotation of the pod")
