# SPDX-License-Identifier: Apache-2.0
"""The plugins that hold where a file says nothing, and koord's own configuration.

docs/reference/scheduling.md#plugins-of-a-profile (kube-scheduler's default set) and
docs/reference/scheduling.md#shipped-profile (the original's file, which spreads the batch pods
that koord's packs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol.resources import BATCH_CPU
from koord.controllers.scheduler.config.args_koord import BY_NAMESPACE
from koord.controllers.scheduler.config.configuration_file import PluginRef
from koord.controllers.scheduler.config.plugin_args import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_SCHEDULER_NAME = "default-scheduler"
KOORD_SCHEDULER_NAME = "koord-scheduler"

# Of every extension point that a plugin takes part in, in this order.
DEFAULT_PLUGINS = tuple(
    PluginRef(name=name, weight=weight)
    for name, weight in (
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeUnschedulable", 0),
        ("NodeName", 0),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodePorts", 0),
        ("NodeResourcesFit", 1),
        ("VolumeRestrictions", 0),
        ("NodeVolumeLimits", 0),
        ("VolumeBinding", 0),
        ("VolumeZone", 0),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("DefaultPreemption", 0),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("DefaultBinder", 0),
    )
)


_SCARCE = "ScarceResourceAvoidance"
# Half of what a node has besides is scarce: 50 points fewer, which outweigh all scores that spread.
_KEPT_OFF = 20


def _enabled(*names: str, alone: bool = False) -> dict[str, Any]:
    plugins = {"enabled": [{"name": name} for name in names]}
    return plugins | ({"disabled": [{"name": "*"}]} if alone else {})


def _weighted(weights: dict[str, int]) -> dict[str, Any]:
    return {"enabled": [{"name": name, "weight": weight} for name, weight in weights.items()]}


def _args(name: str, **values: Any) -> dict[str, Any]:
    kind = {"apiVersion": API_VERSION, "kind": f"{name}Args"}
    return {"name": name, "args": kind | values}


def shipped_document(*scheduler_names: str, scarce: Sequence[str] = ()) -> dict[str, Any]:
    """The configuration that holds where no file is given, as a document.

    Args:
        scheduler_names: a profile for each; ``koord-scheduler`` if none is named.
        scarce: resources whose nodes are kept for pods that ask for them, as far as others fit
            elsewhere.
    """
    profiles = [_shipped_profile(name) for name in scheduler_names or (KOORD_SCHEDULER_NAME,)]
    if scarce:
        for profile in profiles:
            profile["pluginConfig"].append(_args(_SCARCE, resources=list(scarce)))
            profile["plugins"]["score"]["enabled"].append({"name": _SCARCE, "weight": _KEPT_OFF})
            profile["plugins"]["preScore"]["enabled"].append({"name": _SCARCE})
    return {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": True,
            "resourceLock": "leases",
            "resourceName": KOORD_SCHEDULER_NAME,
            "resourceNamespace": "koordinator-system",
        },
        "profiles": profiles,
    }


def _shipped_profile(scheduler_name: str) -> dict[str, Any]:
    spread = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
    # What is idle comes in small pieces: a large batch pod fits where small ones left one whole.
    packed = {BATCH_CPU: {"type": "MostAllocated", "weight": 1}}
    numa, device, gang = "NodeNUMAResource", "DeviceShare", "Coscheduling"
    load, quota, reservation = "LoadAwareScheduling", "ElasticQuota", "Reservation"
    fit_plus = "NodeResourcesFitPlus"
    scores = {load: 1, numa: 1, device: 1, reservation: 5000, gang: 1, fit_plus: 1}
    return {
        "schedulerName": scheduler_name,
        "pluginConfig": [
            _args(
                "NodeResourcesFit", scoringStrategy={"type": "LeastAllocated", "resources": spread}
            ),
            _args(fit_plus, resources=packed),
            _args(
                load,
                filterExpiredNodeMetrics=False,
                nodeMetricExpirationSeconds=300,
                resourceWeights={"cpu": 1, "memory": 1},
                usageThresholds={"cpu": 0, "memory": 0},
                estimatedScalingFactors={"cpu": 85, "memory": 70},
            ),
            _args(quota, quotaGroupNamespace="koordinator-system"),
            _args("PrioritySort", fairness=BY_NAMESPACE),
        ],
        "plugins": {
            "preEnqueue": _enabled(gang),
            "queueSort": _enabled("PrioritySort", alone=True),
            "preFilter": _enabled("SchedulingHint", reservation, numa, device, gang, quota),
            "filter": _enabled(load, numa, device, reservation),
            "postFilter": _enabled(reservation, gang, quota, "DefaultPreemption", alone=True),
            # The original's refuses to score what it has not seen before.
            "preScore": _enabled(reservation, gang, fit_plus),
            "score": _weighted(scores),
            "reserve": _enabled(load, numa, device, reservation, gang, quota),
            "permit": _enabled(gang),
            "preBind": _enabled(numa, device, reservation, gang, "DefaultPreBind"),
            "bind": _enabled(reservation, "DefaultBinder", alone=True),
            "postBind": _enabled(gang),
        },
    }
