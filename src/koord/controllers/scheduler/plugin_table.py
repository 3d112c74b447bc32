# SPDX-License-Identifier: Apache-2.0
"""The built-in plugins: where each class is, what it is at the original, what arguments it takes.

A new plugin is one line of :data:`BUILT_IN`, and one of :data:`ARGS` if it takes arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from koord.controllers.scheduler.config import args_jobs, args_koord, args_stock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.config.args import PluginArgs

METHODS: Final = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("sort_key",),
    "preFilter": ("pre_filter",),
    "filter": ("filter", "filter_node"),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score", "score_node"),
    "reserve": ("reserve",),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
}
"""The functions that make a class a plugin of an extension point; one of them is enough."""


class BuiltIn(NamedTuple):
    """A plugin of koord's.

    Args:
        path: ``module:Class`` below ``koord.controllers.scheduler.plugins``.
        points: where the original's plugin of that name takes part. Configurations written for it
            may enable the plugin there even where koord's has nothing to do at that point.
    """

    path: str
    points: frozenset[str]


def _at(path: str, points: str) -> BuiltIn:
    return BuiltIn(path, frozenset(points.split()))


BUILT_IN: Final[Mapping[str, BuiltIn]] = {
    "SchedulingGates": _at("scheduling_gates:SchedulingGates", "preEnqueue"),
    "PrioritySort": _at("priority_sort:PrioritySort", "queueSort"),
    "NodeUnschedulable": _at("node_unschedulable:NodeUnschedulable", "filter"),
    "NodeName": _at("node_name:NodeName", "filter"),
    "TaintToleration": _at("taint_toleration:TaintToleration", "filter preScore score"),
    "NodeAffinity": _at("node_affinity:NodeAffinity", "preFilter filter preScore score"),
    "NodePorts": _at("node_ports:NodePorts", "preFilter filter"),
    "NodeResourcesFit": _at(
        "noderesources.fit:NodeResourcesFit", "preFilter filter preScore score"
    ),
    "VolumeRestrictions": _at("volumes.restrictions:VolumeRestrictions", "preFilter filter"),
    "NodeVolumeLimits": _at("volumes.limits:NodeVolumeLimits", "preFilter filter"),
    "VolumeBinding": _at(
        "volumes.binding:VolumeBinding", "preFilter filter preScore score reserve preBind"
    ),
    "VolumeZone": _at("volumes.zone:VolumeZone", "preFilter filter"),
    "PodTopologySpread": _at(
        "podtopologyspread.plugin:PodTopologySpread", "preFilter filter preScore score"
    ),
    "InterPodAffinity": _at(
        "interpodaffinity.plugin:InterPodAffinity", "preFilter filter preScore score"
    ),
    "DynamicResources": _at(
        "dynamic_resources:DynamicResources",
        "preEnqueue preFilter filter postFilter score reserve preBind",
    ),
    "DefaultPreemption": _at("default_preemption:DefaultPreemption", "preEnqueue postFilter"),
    "NodeResourcesBalancedAllocation": _at(
        "noderesources.balanced:NodeResourcesBalancedAllocation", "preScore score"
    ),
    "ImageLocality": _at("image_locality:ImageLocality", "score"),
    "DefaultBinder": _at("default_binder:DefaultBinder", "bind"),
    "LoadAwareScheduling": _at("loadaware:LoadAwareScheduling", "preFilter filter score reserve"),
    "NodeNUMAResource": _at(
        "numa.plugin:NodeNUMAResource", "preFilter filter preScore score reserve preBind"
    ),
    "DeviceShare": _at(
        "deviceshare.plugin:DeviceShare", "preFilter filter preScore score reserve preBind"
    ),
    "Reservation": _at(
        "reservation.plugin:Reservation",
        "preFilter filter postFilter preScore score reserve preBind bind",
    ),
    "Coscheduling": _at(
        "coscheduling.plugin:Coscheduling",
        "preEnqueue preFilter postFilter preScore score reserve permit preBind postBind",
    ),
    "ElasticQuota": _at("elasticquota:ElasticQuota", "preFilter postFilter reserve"),
    "NodeResourcesFitPlus": _at("noderesources.fitplus:NodeResourcesFitPlus", "preScore score"),
    "ScarceResourceAvoidance": _at(
        "noderesources.scarce:ScarceResourceAvoidance", "preScore score"
    ),
    "SchedulingHint": _at("scheduling_hint:SchedulingHint", "preFilter"),
}

ABSORBED: Final[Mapping[str, frozenset[str]]] = {"DefaultPreBind": frozenset({"preBind"})}
"""Plugins of the original whose work koord's scheduler does itself: one patch for all PreBinds."""

ARGS: Final[Mapping[str, type[PluginArgs]]] = {
    "DefaultPreemption": args_stock.DefaultPreemptionArgs,
    "DynamicResources": args_stock.DynamicResourcesArgs,
    "InterPodAffinity": args_stock.InterPodAffinityArgs,
    "NodeAffinity": args_stock.NodeAffinityArgs,
    "NodeResourcesFit": args_stock.NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": args_stock.NodeResourcesBalancedAllocationArgs,
    "PodTopologySpread": args_stock.PodTopologySpreadArgs,
    "VolumeBinding": args_stock.VolumeBindingArgs,
    "LoadAwareScheduling": args_koord.LoadAwareSchedulingArgs,
    "NodeNUMAResource": args_koord.NodeNUMAResourceArgs,
    "DeviceShare": args_koord.DeviceShareArgs,
    "NodeResourcesFitPlus": args_koord.NodeResourcesFitPlusArgs,
    "ScarceResourceAvoidance": args_koord.ScarceResourceAvoidanceArgs,
    "SchedulingHint": args_koord.SchedulingHintArgs,
    "Reservation": args_jobs.ReservationArgs,
    "ElasticQuota": args_jobs.ElasticQuotaArgs,
    "Coscheduling": args_jobs.CoschedulingArgs,
}
