# SPDX-License-Identifier: Apache-2.0
"""Everything that is wrong with slo-controller-config, or with what a node says of the same things.

:func:`problems` and :func:`node_problems` are pure: data in, a list out. koord-manager tells of
them as events, ``koord check`` before anything is applied.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.protocol.keys import COLOCATION_STRATEGY, NETWORK_BANDWIDTH
from koord.api.protocol.nodes import PLAUSIBLE, PLAUSIBLE_RATIO, network_bandwidth
from koord.api.sloconfig import sections
from koord.api.sloconfig.checks import DEFAULT_NAME, validate
from koord.api.sloconfig.node_settings import read_annotation, read_labels
from koord.api.sloconfig.reading import missing, read
from koord.api.sloconfig.unknown import unknown_sections
from koord.base.errors import KoordError, one_line, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.node import Node
    from koord.api.sloconfig.merge import MergedSection
    from koord.api.sloconfig.substitutes import Substitute
    from koord.api.sloconfig.unknown import Unknown

SECTION_STAYS = "the last good section stays"
NODE_STAYS = "its nodes keep the last good strategy of this selector, or have the cluster's"
MATCHES_NONE = "it matches no node"
NO_EFFECT = "no effect"
NOT_FOLLOWED = "as if it were not there"
NO_SYSTEM = "the node's NodeSLO has no systemStrategy"
FOLLOWED = "in effect"
REFUSED = "in effect, but refused where the validating webhook is on"

_LONGEST_PATH = 200


class Severity(StrEnum):
    """How much of what is written is followed."""

    ERROR = "error"
    """It is not in effect."""
    WARNING = "warning"
    """It is in effect, but not as it reads: another value is taken, or a name is not known."""
    NOTICE = "notice"
    """It is in effect as it reads; admission refuses it, or nobody can have meant it."""


class Kind(StrEnum):
    """What sort of mistake it is."""

    INVALID = "Invalid"
    SUBSTITUTE = "Substituted"
    UNKNOWN = "Unknown"
    IMPLAUSIBLE = "Implausible"


class Problem(msgspec.Struct, frozen=True):
    """One mistake.

    Attributes:
        section: the data key that it stands in; the annotation or label of a node.
        path: where, as in ``data.colocation-config.nodeConfigs[0].degradeTimeMinutes``.
        field: the last name of the path.
        value: what is written there; of a name without effect, the name.
        expected: what would be right, as a noun phrase; empty where nothing is near.
        severity: how much of it is followed.
        kind: which sort of mistake.
        effect: what becomes of it, as a phrase.
    """

    section: str
    path: str
    field: str
    value: Any
    expected: str
    severity: Severity
    kind: Kind
    effect: str

    def __str__(self) -> str:
        """One line, without the name of the object."""
        path = self.path if len(self.path) <= _LONGEST_PATH else self.path[:_LONGEST_PATH] + "..."
        if self.kind is Kind.UNKNOWN:
            meant = f", did you mean {self.expected}?" if self.expected else ""
            return one_line(f"{path} has no effect{meant}")
        got = f"{path}: got {value_text(self.value)}, expected {self.expected}"
        return one_line(f"{got} ({self.effect})")


def problems(
    data: Mapping[str, str], *, admission: bool = False, third_parties: bool = False
) -> list[Problem]:
    """Everything that is wrong with the data of slo-controller-config, section by section.

    Args:
        data: the ConfigMap's data.
        admission: whether to add, as notices, what is in force but a validating webhook refuses,
            such as node selectors that overlap. That takes time that grows with the square of the
            number of node strategies.
        third_parties: whether extenders read sections of their own, so that a data key which is
            like none of koord's is no mistake.

    Returns:
        Problems in the order of the sections, then of unknown data keys.
    """
    found: list[Problem] = []
    for key in sections.SECTIONS:
        if not missing(data, key):
            found += section_problems(key, data[key])
    if admission:
        known = {(each.path, repr(each.value)) for each in found}
        found += [
            _invalid(_section_of(error.field), error, Severity.NOTICE, REFUSED)
            for error in validate(data, "")
            if (error.field, repr(error.value)) not in known
        ]
        order = {key: at for at, key in enumerate(sections.SECTIONS)}
        found.sort(key=lambda each: order[each.section])
    found += [
        _unknown(each.name, each)
        for each in unknown_sections(data)
        if each.meant or not third_parties
    ]
    return found


def section_problems(key: str, text: str, object_name: str = DEFAULT_NAME) -> list[Problem]:
    """The same of one section.

    Args:
        key: one of :data:`koord.api.sloconfig.sections.SECTIONS`.
        text: its JSON.
        object_name: of the ConfigMap.
    """
    reading = read(sections.SECTIONS[key], text, object_name)
    return [
        *(_invalid(key, each, Severity.ERROR, SECTION_STAYS) for each in reading.errors),
        *(_invalid(key, each, Severity.ERROR, NODE_STAYS) for each in reading.node_errors.values()),
        *(_invalid(key, each, Severity.ERROR, MATCHES_NONE) for each in reading.selector_errors),
        *(_substitute(key, each, followed=not reading.errors) for each in reading.substitutes),
        *(_unknown(key, each) for each in reading.unknown),
        *_implausible(key, reading.merged, object_name),
    ]


def node_problems(node: Node) -> list[Problem]:
    """Everything that is wrong with what a node says of its own co-location.

    Args:
        node: its annotations ``colocation-strategy`` and ``network-bandwidth`` and its ratio labels
            are read; a ``section`` is the key of one of these.
    """
    own = read_annotation(node)
    found = [
        *(_invalid(COLOCATION_STRATEGY, each, Severity.ERROR, NOT_FOLLOWED) for each in own.errors),
        *(
            _substitute(COLOCATION_STRATEGY, each, followed=not own.errors)
            for each in own.substitutes
        ),
        *(_unknown(COLOCATION_STRATEGY, each) for each in own.unknown),
    ]
    labels = read_labels(node)
    for key, error in labels.errors.items():
        found.append(_invalid(key, error, Severity.ERROR, NOT_FOLLOWED))
    found += [_substitute(key, each) for key, each in labels.substitutes.items()]
    try:
        network_bandwidth(node)
    except KoordError as error:
        found.append(_invalid(NETWORK_BANDWIDTH, error, Severity.ERROR, NO_SYSTEM))
    return found


def _implausible(
    key: str, merged: MergedSection[Any] | None, object_name: str
) -> Iterator[Problem]:
    """Ratios of amplification where they are first in force."""
    if key != sections.AMPLIFICATION or merged is None:
        return
    cluster = merged.cluster.resource_amplification_ratio
    levels: list[tuple[str, dict[str, float], dict[str, float]]] = [("", cluster, {})]
    levels += [(f".{each.path}", each.strategy.resource_amplification_ratio, cluster)
               for each in merged.nodes]  # fmt: skip
    for path, ratios, above in levels:
        for name, ratio in ratios.items():
            if ratio > PLAUSIBLE_RATIO and above.get(name) != ratio:
                field = f"data.{key}{path}.resourceAmplificationRatio[{name}]"
                error = KoordError(object_name, field, ratio, PLAUSIBLE)
                found = _invalid(key, error, Severity.NOTICE, FOLLOWED)
                yield msgspec.structs.replace(found, kind=Kind.IMPLAUSIBLE)


def _invalid(section: str, error: KoordError, severity: Severity, effect: str) -> Problem:
    return Problem(
        section, error.field, _last(section, error.field), error.value, error.expected, severity,
        Kind.INVALID, effect,
    )  # fmt: skip


def _substitute(section: str, value: Substitute, *, followed: bool = True) -> Problem:
    """A value that another is taken for, where the rest is such that it is followed at all."""
    stays = NOT_FOLLOWED if section == COLOCATION_STRATEGY else SECTION_STAYS
    return Problem(
        section, value.path, _last(section, value.path), value.value, value.expected,
        Severity.WARNING, Kind.SUBSTITUTE, f"taken as {value.taken}" if followed else stays,
    )  # fmt: skip


def _unknown(section: str, unknown: Unknown) -> Problem:
    return Problem(
        section, unknown.path, unknown.name, unknown.name, unknown.meant, Severity.WARNING,
        Kind.UNKNOWN, NO_EFFECT,
    )  # fmt: skip


def _last(section: str, path: str) -> str:
    """The last name of a path; an annotation or label has dots of its own."""
    own = path.partition(": ")[0]
    return section if own.endswith(f"[{section}]") else own.rpartition(".")[2]


def _section_of(path: str) -> str:
    """The data key in a path; keys of koord's sections have no dots."""
    return path.split(".")[1]
