# SPDX-License-Identifier: Apache-2.0
"""Labels of a node that more than one strategy of a section of slo-controller-config matches.

Rule: docs/reference/admission.md#node-labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.api.sloconfig import sections
from koord.api.sloconfig.merge import selector_problem
from koord.api.sloconfig.reading import missing
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.meta import LabelSelector


class SelectedStrategy(NamedTuple):
    """A node strategy: its name or place, and the nodes that it is for."""

    name: str
    selector: LabelSelector


def selected_strategies(data: Mapping[str, str]) -> dict[str, list[SelectedStrategy]]:
    """The node strategies of each section that can be read, with selectors that each say something.

    A section with any other selector is left out: nobody can say what its author means.

    Args:
        data: of the ConfigMap.
    """
    found = {}
    for key, section in sections.SECTIONS.items():
        if missing(data, key):
            continue
        try:
            config = sections.parse_section(section, data[key], "")
        except KoordError:
            continue
        found[key] = [
            SelectedStrategy(each.name or each.path, each.selector)
            for each in config.nodes
            if each.selector is not None
            and not selectors.is_empty(each.selector)
            and selector_problem(each) is None
        ]
        if len(found[key]) < len(config.nodes):
            del found[key]
    return found


def overlap_problems(
    strategies: Mapping[str, list[SelectedStrategy]], labels: Mapping[str, str], title: str
) -> Iterator[KoordError]:
    """Sections of which a node has two strategies.

    Args:
        strategies: by section.
        labels: of the node.
        title: of the node.
    """
    for key, listed in strategies.items():
        matching = [each.name for each in listed if selectors.matches(each.selector, labels)]
        if len(matching) > 1:
            expected = f"labels that at most one node strategy of {key} matches"
            yield KoordError(title, "metadata.labels", ", ".join(matching), expected)
