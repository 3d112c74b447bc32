# SPDX-License-Identifier: Apache-2.0
"""What koord-manager says of slo-controller-config, and of what a node says of the same things."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.api.protocol import annotation, keys, nodes
from koord.api.protocol.annotation import field_of
from koord.api.protocol.numbers import parse_float
from koord.api.sloconfig import checks, sections
from koord.api.sloconfig.config import colocation_problems
from koord.api.sloconfig.defaults import default_strategy
from koord.api.sloconfig.overlay import overlay
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.base.errors import KoordError
from koord.check.problem import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.node import Node

# Whether two node strategies overlap is asked of every pair.
MOST_STRATEGIES = 500
_NO_EFFECT = re.compile(r": (data\..*) has no effect(?:, did you mean (.*)\?)?", re.DOTALL)
_RATIOS = (keys.CPU_RECLAIM_RATIO, keys.MEMORY_RECLAIM_RATIO, keys.MID_STATIC_CPU_RESERVED_RATIO,
           keys.MID_STATIC_MEMORY_RESERVED_RATIO)  # fmt: skip


def config_findings(data: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong with the data of slo-controller-config."""
    strategies = max((text.casefold().count("nodeselector") for text in data.values()), default=0)
    if strategies > MOST_STRATEGIES:
        expected = f"at most {MOST_STRATEGIES} node strategies; more are not checked"
        yield Finding.warning("data", strategies, expected)
        return
    for error in checks.validate(data, ""):
        yield Finding.of(error)
    for line in checks.warnings(data, ""):
        match = _NO_EFFECT.fullmatch(line)
        if match is not None:
            name = match[1].rpartition(".")[2]
            expected = "a known field" + (f", such as {match[2]}" if match[2] else "")
            yield Finding.warning(match[1], name, expected)


def node_findings(node: Node) -> Iterator[Finding]:
    """What is wrong with a node's own strategy, over the defaults, and with its ratio labels."""
    labels = node.metadata.labels
    for key in _RATIOS:
        if key not in labels:
            continue
        if nodes.ratio_label_percent(node, key) is None:
            yield Finding(f"labels[{key}]", labels[key], "a ratio such as 0.65")
        elif parse_float(labels[key], node.title, key) > 1:
            expected = "a ratio of at most 1: it is no percentage"
            yield Finding.warning(f"labels[{key}]", labels[key], expected)
    try:
        own = annotation.read(node, keys.COLOCATION_STRATEGY, ColocationStrategy)
    except KoordError:
        return
    if own is not None:
        merged = overlay(default_strategy(sections.COLOCATION), own)
        for error in colocation_problems(merged, node.title):
            name = error.field.rpartition(".")[2]
            yield Finding.of(error)._replace(path=f"{field_of(keys.COLOCATION_STRATEGY)}.{name}")
