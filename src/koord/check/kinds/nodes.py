# SPDX-License-Identifier: Apache-2.0
"""Nodes: the labels and annotations by which operators steer one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.node import Node
from koord.api.protocol import keys, node_reservation, nodes
from koord.api.protocol.annotation import field_of
from koord.base.errors import KoordError
from koord.check.kinds.slo_config import node_findings
from koord.check.problem import Finding, Severity
from koord.check.registry import checker
from koord.controllers.scheduler.invalid.node_labels import WORDS
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

_READERS: tuple[Callable[[Node], object], ...] = (
    nodes.system_qos_resource, nodes.usage_thresholds, nodes.amplification_ratios,
    nodes.raw_allocatable, nodes.cpu_normalization_ratio, nodes.cpu_normalization_enabled,
    nodes.network_bandwidth, nodes.third_party_allocations,
    lambda node: node_reservation.reserved_resources(
        node_reservation.node_reservation(node), node.title
    ),
)  # fmt: skip


@checker("Node", "")
def node(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Everything that koord reads of a node's metadata."""
    del world
    node_object = subject.typed
    if not isinstance(node_object, Node):
        return
    for reader in _READERS:
        try:
            reader(node_object)
        except KoordError as error:
            yield Finding.of(error)
    yield from _ratios(node_object)
    yield from _labels(node_object)
    yield from _cpus(node_object)
    yield from node_findings(node_object)


def _ratios(node_object: Node) -> Iterator[Finding]:
    try:
        yield from map(Finding.of, nodes.unfollowed_ratios(node_object))
        for error in nodes.implausible_ratios(node_object):
            yield Finding.of(error, Severity.WARNING)
    except KoordError:
        return


def _labels(node_object: Node) -> Iterator[Finding]:
    labels = node_object.metadata.labels
    for key, words in WORDS.items():
        if labels.get(key) and labels[key] not in words:
            yield Finding(f"labels[{key}]", labels[key], " or ".join(words))


def _cpus(node_object: Node) -> Iterator[Finding]:
    try:
        system = nodes.system_qos_resource(node_object)
        if system is not None and system.cpuset:
            CPUSet.parse_wire(system.cpuset)
    except KoordError:
        return
    except ValueError as error:
        field = f"{field_of(keys.SYSTEM_QOS_RESOURCE)}.cpuset"
        yield Finding.of(KoordError.wrap(node_object.title, field, error))
