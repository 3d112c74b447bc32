# SPDX-License-Identifier: Apache-2.0
"""Arguments of CustomPriority: levels of nodes, and how pods leave the expensive ones.

Rule: docs/reference/descheduling-plugins.md#custompriority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.kinds.meta import LabelSelector
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import check_selector
from koord.controllers.descheduler.plugins.selection_args import SelectionArgs
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, without_empty

if TYPE_CHECKING:
    from koord.controllers.scheduler.config.field_path import FieldPath

BEST_EFFORT, DRAIN_NODE = "BestEffort", "DrainNode"
_LEAST_LEVELS = 2


class NodeLevel(ConfigStruct, frozen=True):
    """Nodes of one price.

    Attributes:
        keepThreshold: percent by resource; pods stay on nodes that are below all of them.
        rejectThreshold: percent by resource; nodes that are above one take no pods.
    """

    name: str = ""
    node_selector: LabelSelector | None = None
    keep_threshold: dict[str, float] = {}
    reject_threshold: dict[str, float] = {}

    def check(self, at: FieldPath) -> None:
        """Everything is there, percentages are from 0 to 100."""
        at.inside("name").need(bool(self.name), self.name, "a name")
        given = self.node_selector is not None
        at.inside("nodeSelector").need(given, "nothing", "a label selector of nodes")
        check_selector(self.node_selector, at.inside("nodeSelector"))
        for key, percentages in (
            ("keepThreshold", self.keep_threshold),
            ("rejectThreshold", self.reject_threshold),
        ):
            for name, percent in percentages.items():
                spot = at.inside(key, f'"{name}"')
                spot.need(0 <= percent <= 100, percent, "a number from 0 to 100")


class CustomPriorityArgs(SelectionArgs, frozen=True):
    """Which levels there are, the most expensive first, and how pods leave them."""

    paused: bool = False
    dry_run: bool = False
    node_fit: bool = True
    eviction_order: list[NodeLevel] = []
    mode: str = BEST_EFFORT
    auto_cordon: bool = False

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """An empty mode is the default."""
        return without_empty(document, "mode")

    def check(self, at: FieldPath) -> None:
        """At least two levels, each complete and of a name of its own, and a mode that is known."""
        super().check(at)
        spot = at.inside("evictionOrder")
        count = len(self.eviction_order)
        spot.need(count >= _LEAST_LEVELS, f"{count} levels", f"{_LEAST_LEVELS} levels or more")
        spot.distinct([level.name for level in self.eviction_order], "name")
        for index, level in enumerate(self.eviction_order):
            level.check(spot.inside(index))
        at.inside("mode").one_of(self.mode, (BEST_EFFORT, DRAIN_NODE))
