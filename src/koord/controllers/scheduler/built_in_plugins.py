# SPDX-License-Identifier: Apache-2.0
"""The built-in plugins: where each class is, what it is at the original, what arguments it takes.

A new plugin is one line of :data:`BUILT_IN`, and one of :data:`ARGS` if it takes arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from koord.controllers.scheduler.config import (
    args_gangs_and_quota,
    args_koord,
    args_kube_scheduler,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.config.plugin_args import PluginArgs

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
    "SchedulingGates": _at("kubernetes.scheduling_gates:SchedulingGates", "preEnqueue"),
    "PrioritySort": _at("kubernetes.priority_sort:PrioritySort", "queueSort"),
    "NodeUnschedulable": _at("kubernetes.node_unschedulable:NodeUnschedulable", "filter"),
    "NodeName": _at("kubernetes.node_name:NodeName", "filter"),
    "TaintToleration": _at("kubernetes.taint_toleration:TaintToleration", "filter preScore score"),
    "NodeAffinity": _at("kubernetes.node_affinity:NodeAffinity", "preFilter filter preScore score"),
    "NodePorts": _at("kubernetes.node_ports:NodePorts", "preFilter filter"),
    "NodeResourcesFit": _at(
        "noderesources.fit:NodeResourcesFit", "preFilter filter preScore score"
    ),
    "VolumeRestrictions": _at(
        "kubernetes.volumes.restrictions:VolumeRestrictions", "preFilter filter"
    ),
    "NodeVolumeLimits": _at("kubernetes.volumes.limits:NodeVolumeLimits", "preFilter filter"),
    "VolumeBinding": _at(
        "kubernetes.volumes.binding:VolumeBinding",
        "preFilter filter preScore score reserve preBind",
    ),
    "VolumeZone": _at("kubernetes.volumes.zone:VolumeZone", "preFilter filter"),
    "PodTopologySpread": _at(
        "kubernetes.podtopologyspread.plugin:PodTopologySpread", "preFilter filter preScore score"
    ),
    "InterPodAffinity": _at(
        "kubernetes.interpodaffinity.plugin:InterPodAffinity", "preFilter filter preScore score"
    ),
    "DynamicResources": _at(
        "kubernetes.dynamic_resources:DynamicResources",
        "preEnqueue preFilter filter postFilter score reserve preBind",
    ),
    "DefaultPreemption": _at(
        "kubernetes.default_preemption:DefaultPreemption", "preEnqueue postFilter"
    ),
    "NodeResourcesBalancedAllocation": _at(
        "noderesources.balanced_allocation:NodeResourcesBalancedAllocation", "preScore score"
    ),
    "ImageLocality": _at("kubernetes.image_locality:ImageLocality", "score"),
    "DefaultBinder": _at("kubernetes.default_binder:DefaultBinder", "bind"),
    "LoadAwareScheduling": _at(
        "loadaware.plugin:LoadAwareScheduling", "preFilter filter score reserve"
    ),
    "NodeNUMAResource": _at(
        "nodenumaresource.plugin:NodeNUMAResource",
        "preFilter filter preScore score reserve preBind",
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
    "NodeResourcesFitPlus": _at("noderesources.fit_plus:NodeResourcesFitPlus", "preScore score"),
    "ScarceResourceAvoidance": _at(
        "noderesources.scarce_resource_avoidance:ScarceResourceAvoidance", "preScore score"
    ),
    "SchedulingHint": _at("scheduling_hint:SchedulingHint", "preFilter"),
}

ABSORBED: Final[Mapping[str, frozenset[str]]] = {"DefaultPreBind": frozenset({"preBind"})}
"""Plugins of the original whose work koord's scheduler does itself: one patch for all PreBinds."""

ARGS: Final[Mapping[str, type[PluginArgs]]] = {
    "DefaultPreemption": args_kube_scheduler.DefaultPreemptionArgs,
    "DynamicResources": args_kube_scheduler.DynamicResourcesArgs,
    "InterPodAffinity": args_kube_scheduler.InterPodAffinityArgs,
    "NodeAffinity": args_kube_scheduler.NodeAffinityArgs,
    "NodeResourcesFit": args_kube_scheduler.NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": args_kube_scheduler.NodeResourcesBalancedAllocationArgs,
    "PodTopologySpread": args_kube_scheduler.PodTopologySpreadArgs,
    "VolumeBinding": args_kube_scheduler.VolumeBindingArgs,
    "LoadAwareScheduling": args_koord.LoadAwareSchedulingArgs,
    "NodeNUMAResource": args_koord.NodeNUMAResourceArgs,
    "DeviceShare": args_koord.DeviceShareArgs,
    "NodeResourcesFitPlus": args_koord.NodeResourcesFitPlusArgs,
    "ScarceResourceAvoidance": args_koord.ScarceResourceAvoidanceArgs,
    "PrioritySort": args_koord.PrioritySortArgs,
    "SchedulingHint": args_koord.SchedulingHintArgs,
    "Reservation": args_gangs_and_quota.ReservationArgs,
    "ElasticQuota": args_gangs_and_quota.ElasticQuotaArgs,
    "Coscheduling": args_gangs_and_quota.CoschedulingArgs,
}
