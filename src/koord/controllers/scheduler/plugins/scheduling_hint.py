# SPDX-License-Identifier: Apache-2.0
"""SchedulingHint: a controller that has planned already names the nodes to look at.

Rule: docs/reference/load.md#schedulinghint. ``nodeNames`` leaves only these nodes,
``preferredNodeNames`` are tried in their order before any other. ``extensions``, meant for other
plugins, are kept in ``cycle.state``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol.scheduling import SchedulingHint as Hint
from koord.api.protocol.scheduling import scheduling_hint
from koord.base.errors import KoordError
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.events import HintedEvent

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.config.args_koord import SchedulingHintArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle


class SchedulingHint(Plugin):
    """Narrows the nodes of a pod to those that its hint names, and tries preferred ones first."""

    name = "SchedulingHint"
    reads = PodField.ANNOTATIONS

    def __init__(self, args: SchedulingHintArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args: SchedulingHintArgs = args

    def events(self) -> Sequence[HintedEvent]:
        """A node that was named may come."""
        return (HintedEvent(ev.NODE_ADD),)

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without a hint."""
        return ("pre_filter",) if self._hint(shape) is None else ()

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Narrows the nodes, and puts preferred ones first."""
        hint = self._hint(cycle.shape)
        if hint is None:
            return None
        if isinstance(hint, str):
            return Rejection(self.name, (hint,), error=True)
        cycle.state[self.name] = hint.extensions
        if hint.node_names:
            cycle.restrict_to(hint.node_names)
        cycle.prefer(self._rows(hint.preferred_node_names[: self.args.max_hint_nodes]))
        return None

    def _rows(self, names: Sequence[str]) -> list[int]:
        rows = (self.handle.table.row(name) for name in names)
        return [row for row in rows if row is not None]

    def _hint(self, shape: PodShape) -> Hint | str | None:
        """The hint of a shape, or what is wrong with it."""
        hint: Hint | str | None
        if self.name in shape.memo:
            hint = shape.memo[self.name]
            return hint
        try:
            hint = scheduling_hint(shape.pod)
        except KoordError as error:
            hint = str(error)
        shape.memo[self.name] = hint
        return hint
