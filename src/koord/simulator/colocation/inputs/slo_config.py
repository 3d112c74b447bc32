# SPDX-License-Identifier: Apache-2.0
"""The settings of a run with co-location: slo-controller-config, as the manager reads it.

A section that is not there is at its defaults; of the co-location and the threshold section that is
so with ``enable: true``, for a run that shares nothing shows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from koord.api.codec import to_document
from koord.api.kinds.node import Node
from koord.api.sloconfig import config, sections
from koord.base.documents import parse_documents, read_text
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from pathlib import Path

    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.simulator.colocation.inputs.scenario import Scenario

SCHEDULER_KIND = "KubeSchedulerConfiguration"
_ENABLED = {
    sections.COLOCATION: '{"enable": true}',
    sections.THRESHOLD: '{"clusterStrategy": {"enable": true}}',
}


class ClusterStrategies(NamedTuple):
    """What holds on every machine.

    Attributes:
        colocation: what the manager follows.
        slo: what agents follow.
    """

    colocation: ColocationStrategy
    slo: NodeSLOSpec

    def as_document(self) -> dict[str, Any]:
        """Both by section, as a report shows them; what is not set is left out."""
        threshold = self.slo.resource_used_threshold_with_be
        burst = self.slo.cpu_burst_strategy
        found = {sections.COLOCATION: self.colocation, sections.THRESHOLD: threshold,
                 sections.BURST: burst}  # fmt: skip
        return {key: _without_unset(value) for key, value in found.items()}


def of(scenario: Scenario, source: str = "sloControllerConfig") -> ClusterStrategies:
    """The settings of a scenario.

    Raises:
        KoordError: a section that does not parse or is invalid, or that turns co-location off.
    """
    data = _ENABLED | scenario.slo_controller_config
    for key in data:
        if key not in sections.SECTIONS:
            raise KoordError(source, "", key, "one of " + ", ".join(sections.SECTIONS))
    found = config.load(data, object_name=source)
    for error in (found.errors | found.ignored).values():
        raise error
    node = Node()
    colocation = found.colocation(node)
    if not colocation.enable:
        where = f"{sections.COLOCATION}.enable"
        raise KoordError(source, where, colocation.enable, "true: without it nothing is shared")
    return ClusterStrategies(colocation, found.node_slo_spec(node))


def overlaid(scenario: Scenario, path: Path) -> Scenario:
    """A scenario under the settings of a file.

    Args:
        scenario: its own sections stay where the file has none of the name.
        path: a ConfigMap, a KubeSchedulerConfiguration, or both.

    Raises:
        KoordError: unreadable, or another kind of document.
    """
    data, scheduler = dict(scenario.slo_controller_config), dict(scenario.scheduler)
    documents = parse_documents(read_text(path), str(path))
    if not documents:
        raise KoordError(str(path), "kind", None, f"ConfigMap or {SCHEDULER_KIND}")
    for document in documents:
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind == "ConfigMap":
            data |= _data(document, str(path))
        elif kind == SCHEDULER_KIND:
            scheduler = document
        else:
            raise KoordError(str(path), "kind", kind, f"ConfigMap or {SCHEDULER_KIND}")
    changed = msgspec.structs.replace(scenario, slo_controller_config=data, scheduler=scheduler)
    of(changed, str(path))
    return changed


def _data(document: dict[str, Any], source: str) -> dict[str, str]:
    data = document.get("data")
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        raise KoordError(source, "data", data, "a mapping of sections to JSON text")
    return data


def _without_unset(value: object) -> dict[str, Any]:
    document = to_document(value)
    return {key: each for key, each in document.items() if each not in (None, {}, [])}
