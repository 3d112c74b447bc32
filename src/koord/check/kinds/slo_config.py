# SPDX-License-Identifier: Apache-2.0
"""What koord-manager says of slo-controller-config, of what a node says of the same things, and
what koordlet says of its NodeSLO.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.nodeslo import NodeSLO
from koord.api.sloconfig import problems as slo
from koord.api.sloconfig import rules
from koord.check.problem import Finding, Severity
from koord.check.registry import checker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koord.api.kinds.node import Node
    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

# Whether two node strategies overlap is asked of every pair.
MOST_STRATEGIES = 500


def config_findings(data: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong with the data of slo-controller-config."""
    strategies = max((text.casefold().count("nodeselector") for text in data.values()), default=0)
    few = strategies <= MOST_STRATEGIES
    if not few:
        expected = f"at most {MOST_STRATEGIES} node strategies; of more, overlaps are not told"
        yield Finding.warning("data", strategies, expected)
    yield from _findings(slo.problems(data, admission=few))


def node_findings(node: Node) -> Iterator[Finding]:
    """What is wrong with a node's own strategy and its ratio labels."""
    yield from _findings(slo.node_problems(node))


@checker("NodeSLO", "slo.koordinator.sh")
def node_slo(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """Values that koordlet cannot follow."""
    del world
    found = subject.typed
    if not isinstance(found, NodeSLO):
        return
    yield from map(Finding.of, rules.problems(found.spec, found.title, "spec", rules.IN_FORCE))


def _findings(problems: Iterable[slo.Problem]) -> Iterator[Finding]:
    for each in problems:
        if each.kind is slo.Kind.UNKNOWN:
            near = f", such as {each.expected}" if each.expected else ""
            yield Finding.warning(each.path, each.value, f"a known name{near}")
            continue
        severity = Severity.ERROR if each.severity is slo.Severity.ERROR else Severity.WARNING
        yield Finding(each.path, each.value, f"{each.expected} ({each.effect})", severity)
