# SPDX-License-Identifier: Apache-2.0
"""DeviceShareArgs as the plugin uses them (docs/reference/devices.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from koord.api.protocol import resources as res
from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES
from koord.kernels.devices import PodShape, Strategy
from koord.kernels.devices_assign import Scoring

if TYPE_CHECKING:
    from koord.controllers.scheduler.config.args_koord import DeviceShareArgs

_WEIGHTS = {res.GPU_MEMORY_RATIO: 1, res.GPU_MEMORY: 1, res.RDMA: 1, res.FPGA: 1}
_CONFIG_MAP = ("koordinator-system", "gpu-shared-resource-templates")


class ScoringType(StrEnum):
    """How nodes and cards are ordered.

    The first two are Koordinator's. ``FragmentationAware`` puts a pod where it costs the least GPU
    capacity (docs/policy-koord.md); ``FragmentationGradient`` is the published policy FGD, which
    needs the typical pods as an argument.
    """

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    FRAGMENTATION_AWARE = "FragmentationAware"
    FRAGMENTATION_GRADIENT = "FragmentationGradient"


@dataclass(frozen=True)
class DeviceShareOptions:
    """The resolved arguments of the plugin.

    Attributes:
        scoring: of nodes and cards.
        weights: of resources, for the first two scorings and for cards in all of them.
        typical_pods: how often pods of a shape are expected, for ``FragmentationGradient``.
        aligned: devices take part in the joint choice of NUMA nodes.
        templates: namespace and name of the ConfigMap of GPU shared resource templates.
        matched_resources: a shared GPU with one of them must equal a template.
        unsupported_models: vendor and model of GPUs that cannot be shared.
    """

    scoring: ScoringType = ScoringType.LEAST_ALLOCATED
    weights: Mapping[str, int] = field(default_factory=lambda: dict(_WEIGHTS))
    typical_pods: Mapping[PodShape, float] = field(default_factory=dict)
    aligned: bool = True
    templates: tuple[str, str] = _CONFIG_MAP
    matched_resources: tuple[str, ...] = (res.NPU_CORE,)
    unsupported_models: frozenset[tuple[str, str]] = frozenset()

    @property
    def fragmentation(self) -> bool:
        """Whether nodes are ordered by what a placement costs in GPU capacity."""
        return self.scoring not in (ScoringType.LEAST_ALLOCATED, ScoringType.MOST_ALLOCATED)

    @property
    def strategy(self) -> Strategy:
        """How cards are ordered: fragmentation-aware placement packs."""
        least = self.scoring is ScoringType.LEAST_ALLOCATED
        return Strategy.LEAST_ALLOCATED if least else Strategy.MOST_ALLOCATED

    def by_type(self) -> dict[str, Scoring]:
        """How cards of each device type are scored."""
        return {
            kind: Scoring(self.strategy, [self.weights.get(name, 0) for name in names])
            for kind, names in RESOURCES.items()
        }


def options_of(args: DeviceShareArgs | DeviceShareOptions | None) -> DeviceShareOptions:
    """Options from the plugin's arguments, or the defaults from None."""
    if args is None or isinstance(args, DeviceShareOptions):
        return args or DeviceShareOptions()
    templates = args.gpu_shared_resource_templates_config
    return DeviceShareOptions(
        scoring=ScoringType(args.scoring_strategy.type),
        weights={resource.name: resource.weight for resource in args.scoring_strategy.resources},
        aligned=not args.disable_device_numa_topology_alignment,
        templates=(templates.config_map_namespace, templates.config_map_name),
        matched_resources=tuple(templates.matched_resources),
        unsupported_models=frozenset(
            (model.vendor, model.model) for model in args.gpu_share_unsupported_models
        ),
    )
