# SPDX-License-Identifier: Apache-2.0
"""The sections of slo-controller-config: how each is laid out, and its levels as typed values."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from koord.api import codec
from koord.api.casefold import fold_keys
from koord.api.kinds.meta import LabelSelector
from koord.api.kinds.qos_strategy import ResourceQOSStrategy
from koord.api.kinds.slo_strategies import (
    CPUBurstStrategy,
    HostApplications,
    ResourceThresholdStrategy,
    SystemStrategy,
)
from koord.api.sloconfig.strategies import (
    ColocationStrategy,
    CPUNormalizationStrategy,
    ResourceAmplificationStrategy,
)
from koord.base.errors import KoordError

T = TypeVar("T", bound=msgspec.Struct)

CONFIG_MAP_NAMESPACE = "koordinator-system"
CONFIG_MAP_NAME = "slo-controller-config"

COLOCATION = "colocation-config"
THRESHOLD = "resource-threshold-config"
QOS = "resource-qos-config"
BURST = "cpu-burst-config"
SYSTEM = "system-config"
HOST_APPLICATION = "host-application-config"
NORMALIZATION = "cpu-normalization-config"
AMPLIFICATION = "resource-amplification-config"


class Section(NamedTuple):
    """Where a section keeps its two levels.

    Args:
        key: the ConfigMap's data key.
        strategy: type of a strategy.
        cluster_field: where the cluster strategy stands; ``""`` if its fields stand at the top.
        nodes_field: where the list of node strategies stands.
    """

    key: str
    strategy: type[Any]
    cluster_field: str
    nodes_field: str

    @property
    def field_names(self) -> list[str]:
        """The wire names of a strategy's fields."""
        return [field.encode_name for field in msgspec.structs.fields(self.strategy)]


SECTIONS: dict[str, Section] = {
    section.key: section
    for section in (
        Section(COLOCATION, ColocationStrategy, "", "nodeConfigs"),
        Section(THRESHOLD, ResourceThresholdStrategy, "clusterStrategy", "nodeStrategies"),
        Section(QOS, ResourceQOSStrategy, "clusterStrategy", "nodeStrategies"),
        Section(BURST, CPUBurstStrategy, "clusterStrategy", "nodeStrategies"),
        Section(SYSTEM, SystemStrategy, "clusterStrategy", "nodeStrategies"),
        Section(HOST_APPLICATION, HostApplications, "", "nodeConfigs"),
        Section(NORMALIZATION, CPUNormalizationStrategy, "", "nodeConfigs"),
        Section(AMPLIFICATION, ResourceAmplificationStrategy, "", "nodeConfigs"),
    )
}


class NodeStrategy(msgspec.Struct, Generic[T]):
    """The strategy of nodes that a selector matches.

    Args:
        name: for people.
        selector: None matches no node, an empty one every node.
        strategy: what it sets.
        path: where in the section it stands.
    """

    name: str
    selector: LabelSelector | None
    strategy: T
    path: str


class SectionConfig(msgspec.Struct, Generic[T]):
    """Both levels of a section.

    Args:
        cluster: for nodes that no node strategy matches.
        nodes: in order of precedence.
        cluster_path: where in the section the cluster strategy stands.
    """

    cluster: T
    nodes: list[NodeStrategy[T]]
    cluster_path: str = ""


class NodeItem(msgspec.Struct, rename="camel"):
    """What a node-level item has besides the fields of its strategy."""

    name: str = ""
    node_selector: LabelSelector | None = None


def parse_section(section: Section, text: str, object_name: str) -> SectionConfig[Any]:
    """The levels of a section as they are written, nothing merged.

    Args:
        section: which.
        text: the JSON document.
        object_name: of the ConfigMap, for errors.

    Raises:
        KoordError: no JSON, or a field of the wrong type.
    """
    return typed(section, document(section, text, object_name), object_name)


def typed(section: Section, top: dict[str, Any], object_name: str) -> SectionConfig[Any]:
    """The levels of a section's document, see :func:`document` and :func:`parse_section`.

    Raises:
        KoordError: a field of the wrong type.
    """
    where = f"data.{section.key}"
    cluster = top.get(section.cluster_field, {}) if section.cluster_field else top
    field = f"{where}.{section.cluster_field}".rstrip(".")
    strategy = _typed(cluster, section.strategy, object_name, field)
    nodes = []
    for index, item in enumerate(top.get(section.nodes_field, [])):
        path = f"{section.nodes_field}[{index}]"
        head = _typed(item, NodeItem, object_name, f"{where}.{path}")
        own = _typed(item, section.strategy, object_name, f"{where}.{path}")
        nodes.append(NodeStrategy(head.name, head.node_selector, own, path))
    return SectionConfig(strategy, nodes, section.cluster_field)


def document(section: Section, text: str, object_name: str) -> dict[str, Any]:
    """The section's JSON object, the names of its levels spelled as they should be.

    Raises:
        KoordError: no JSON object, or one whose node strategies are no list.
    """
    where = f"data.{section.key}"
    parsed = codec.parse_json(text, object_name, where)
    top = codec.without_nulls({} if parsed is None else parsed, object_name, where)
    if not isinstance(top, dict):
        raise KoordError(object_name, where, top, "a JSON object")
    levels = {name.casefold(): name for name in (section.cluster_field, section.nodes_field)}
    top = {levels.get(key.casefold(), key): value for key, value in top.items()}
    items = top.get(section.nodes_field, [])
    if not isinstance(items, list):
        raise KoordError(object_name, f"{where}.{section.nodes_field}", items, "a list")
    return top


def _typed(part: Any, kind: Any, object_name: str, field: str) -> Any:
    return codec.convert(fold_keys(part, kind), kind, object_name, field)
