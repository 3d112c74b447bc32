# SPDX-License-Identifier: Apache-2.0
"""Events about typing errors, in slo-controller-config and in what nodes say of the same things.

One for each section and sort of mistake, and one for each node and sort, until the text changes.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys
from koord.api.sloconfig import sections
from koord.api.sloconfig.node_settings import RATIO_LABELS
from koord.api.sloconfig.problems import Kind, node_problems
from koord.base import log
from koord.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from koord.api.kinds.meta import Object
    from koord.api.kinds.node import Node
    from koord.api.sloconfig.problems import Problem
    from koord.controllers.cluster.views import View
    from koord.controllers.manager.event_writer import EventWriter

_LOG = log.get("manager.config")
_INVALID = {
    sections.COLOCATION: "ColocationCfgUnmarshalFailed",
    sections.NORMALIZATION: "CPUNormalizationCfgUnmarshalFailed",
    sections.AMPLIFICATION: "ResourceAmplificationCfgUnmarshalFailed",
}
_OTHER_INVALID = "SLOCfgUnmarshalFailed"
_REASONS = {
    Kind.SUBSTITUTE: "SLOCfgValueSubstituted",
    Kind.UNKNOWN: "SLOCfgNameUnknown",
    Kind.IMPLAUSIBLE: "SLOCfgValueImplausible",
}
_NODE_REASONS = {
    Kind.INVALID: "NodeSettingInvalid",
    Kind.SUBSTITUTE: "NodeSettingSubstituted",
    Kind.UNKNOWN: "NodeSettingUnknown",
}
_NOT_FOLLOWED = "the configuration is not followed as it is written"
_WHAT = {Kind.IMPLAUSIBLE: "the configuration is followed, and can hardly be meant"}
_MOST_LINES = 4
_LABELS, _ANNOTATIONS = tuple(RATIO_LABELS), (keys.COLOCATION_STRATEGY, keys.NETWORK_BANDWIDTH)


class ConfigComplaint(NamedTuple):
    """What one event says.

    Args:
        section: the data key that it is about; empty for data keys that are no sections.
        kind: which sort of mistake.
        message: the first few mistakes, and how many more there are.
    """

    section: str
    kind: Kind
    message: str

    @property
    def reason(self) -> str:
        """The event's reason; those of sections that are not in effect are Koordinator's."""
        return _REASONS.get(self.kind) or _INVALID.get(self.section, _OTHER_INVALID)


def complaints(problems: Iterable[Problem]) -> list[ConfigComplaint]:
    """What to say of problems, in their order.

    Args:
        problems: those of one section after those of another, as
            :func:`koord.api.sloconfig.problems.problems` has them.
    """
    said = []
    for (section, kind), group in groupby(problems, lambda each: (_section(each), each.kind)):
        lines = [str(each) for each in group]
        more = len(lines) - _MOST_LINES
        rest = [f"and {more} more"] if more > 0 else []
        said.append(ConfigComplaint(section, kind, "; ".join(lines[:_MOST_LINES] + rest)))
    return said


class ConfigEvents:
    """Which complaints have been made.

    Args:
        tell: writes events.
    """

    def __init__(self, write_event: EventWriter) -> None:
        self._write_event = write_event
        self._texts: dict[tuple[str, Kind], Hashable] = {}

    def say(
        self, about: Object, name: str, problems: list[Problem], data: Mapping[str, str]
    ) -> None:
        """Tells of each section with a mistake once, until its text is another.

        Args:
            about: the ConfigMap.
            name: what messages call it.
            problems: its problems.
            data: its data.
        """
        before, self._texts = self._texts, {}
        for complaint in complaints(problems):
            key = complaint.section, complaint.kind
            text = data[complaint.section] if complaint.section else complaint.message
            self._texts[key] = text
            if before.get(key) == text:
                continue
            said = log.fields(section=complaint.section, error=complaint.message)
            _LOG.warning(_WHAT.get(complaint.kind, _NOT_FOLLOWED), extra=said)
            self._write_event(
                about, "Warning", complaint.reason, one_line(f"{name}: {complaint.message}")
            )


class NodeConfigEvents:
    """Tells of what nodes say wrongly of their own co-location.

    Args:
        view: nodes.
        tell: writes events.
    """

    def __init__(self, view: View[Node], write_event: EventWriter) -> None:
        self._view = view
        self._write_event = write_event
        self._follows = False

    def start(self) -> None:
        """Looks at all nodes, and at each whose settings change from then on."""
        if not self._follows:
            self._follows = True
            self._view.on_change(self._look, self._updated)

    def _updated(self, old: Node, new: Node) -> None:
        if _settings(old) != _settings(new):
            self._look(new)

    def _look(self, node: Node) -> None:
        if not any(_settings(node)):  # nearly every one
            return
        found = sorted(node_problems(node), key=lambda each: list(Kind).index(each.kind))
        for complaint in complaints(found):
            said = log.fields(node=node.metadata.name, error=complaint.message)
            _LOG.warning("a node's own settings are not followed as they are written", extra=said)
            self._write_event(node, "Warning", _NODE_REASONS[complaint.kind], complaint.message)


def _settings(node: Node) -> list[str | None]:
    meta = node.metadata
    return [*map(meta.labels.get, _LABELS), *map(meta.annotations.get, _ANNOTATIONS)]


def _section(problem: Problem) -> str:
    return problem.section if problem.section in sections.SECTIONS else ""
