# SPDX-License-Identifier: Apache-2.0
"""Nodes that show everything that is wanted of them: which of them new offers are written to.

A node that was brought to where it should be needs no plugins again until something of it changes,
or of the configuration that they read. Until then only its offers move, with reports, pods and
strategies; what that means for all such nodes is one pass over columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.protocol import keys
from koord.controllers.manager.noderesource.plugins.batch_and_mid import origin_text, speed
from koord.controllers.manager.noderesource.plugins.plugin import (
    CalculatedResources,
    DecidedNode,
    DesiredNode,
)
from koord.controllers.manager.noderesource.state.observed import (
    ObservedObjects,
    covers,
    is_observed,
    observed_objects,
)
from koord.controllers.manager.noderesource.state.published import published_amounts
from koord.controllers.manager.noderesource.state.reconciled_columns import (
    desired_amounts,
    due_rows,
    empty_amounts,
    empty_rows,
    with_numbers,
)
from koord.controllers.manager.noderesource.writers.decided_patches import (
    OFFERS,
    DecidedPatches,
    ZoneTemplates,
    status_patch,
    zones_patch,
)
from koord.controllers.manager.overcommit.amounts import CPU, MEMORY
from koord.controllers.manager.overcommit.column_groups import joined, take
from koord.controllers.manager.overcommit.formulas.threshold import ABSENT
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.device import Device
    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.controllers.manager.noderesource.state.observed import ReconcileInputs
    from koord.controllers.manager.noderesource.state.published import PublishedAmounts
    from koord.controllers.manager.noderesource.state.reconciled_columns import DueRows
    from koord.controllers.manager.noderesource.writers.decided_patches import ZonesTemplate
    from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache

WriteTimes = tuple[float, float]
_UNDECIDED = 0


class RowToken(NamedTuple):
    """A moment of a row: how often it has changed, and in which pass it was decided on."""

    generation: int
    decided_in: int


class ReconciledNodes:
    """What is known of reconciled nodes, by row of the overcommit cache.

    For every row that is reconciled holds:

    1. ``published`` is what the node and the topology of ``observed`` show, to the last unit; for
       a row of ``_confirmed`` ``desired`` is;
    2. labels, annotations and all resources but batch, mid and zones are as plugins want them for
       ``observed`` under the configuration in force;
    3. ``desired`` is what plugins would want of the node for the cache's row as of the pass
       ``decided_in``; nothing, where that is 0;
    4. its template, if it has one, says of zones what the topology of ``observed`` does, but for
       batch.

    A row's ``generation`` goes up with everything that may end (1) or (2), and never down. A token
    is honoured while its generation is the row's, by :meth:`confirm` only while its ``decided_in``
    is, too. Rows that are not reconciled are looked at by plugins, one node at a time, and that
    decides the same.

    The number of a row may pass to another node. By then the deletion of the first has been seen,
    and has called :meth:`invalidate`.
    """

    def __init__(self) -> None:
        self._rows = empty_rows(0)
        self._published, self._desired = empty_amounts(0, 0), empty_amounts(0, 0)
        self._observed: list[ObservedObjects] = []
        self._templates = ZoneTemplates()
        self._template_of: list[ZonesTemplate | None] = []
        self._passes = 0
        # Rows that show what was desired of them: their columns are brought there all at once.
        self._confirmed: set[int] = set()

    # Queries.

    def are_reconciled(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of some rows are."""
        self._grow_rows(int(rows.max(initial=-1)) + 1)
        reconciled: NDArray[np.bool_] = self._rows.reconciled[rows]
        return reconciled

    def covers(
        self,
        row: int,
        node: Node | None,
        topology: NodeResourceTopology | None,
        device: Device | None,
    ) -> bool:
        """Whether a row is reconciled from these states of its objects or later ones."""
        self._grow_rows(row + 1)
        return bool(self._rows.reconciled[row]) and covers(
            self._observed[row], node, topology, device
        )

    def calculated(self, row: int) -> CalculatedResources | None:
        """What plugins calculated for a row, without amounts; None for one that is not
        reconciled.
        """
        self._grow_rows(row + 1)
        return self._observed[row].result if self._rows.reconciled[row] else None

    def enabled(self, row: int) -> bool:
        """Whether co-location was on when a row was reconciled."""
        return bool(self._rows.enabled[row])

    def decided(self, row: int) -> DecidedNode | None:
        """What a reconciled row is to show as of the last decision; None before the first."""
        self._grow_rows(row + 1)
        rows = self._rows
        if not rows.reconciled[row] or rows.decided_in[row] == _UNDECIDED:
            return None
        desired = self._desired_node(row)
        return DecidedNode(desired, bool(rows.node_due[row]), bool(rows.zones_due[row]))

    def _desired_node(self, row: int) -> DesiredNode:
        desired = self._desired
        amounts = (*desired.batch[:, row].tolist(), *desired.mid[:, row].tolist())
        resources = {
            name: None if amount == ABSENT else Quantity.from_value(amount)
            for name, amount in zip(OFFERS, amounts, strict=True)
        }
        if row in self._confirmed:
            return DesiredNode(resources)
        origin = desired.origin[:, row].tolist()
        if origin == self._published.origin[:, row].tolist():
            return DesiredNode(resources)
        return DesiredNode(
            resources, beside={keys.ORIGIN_EXTENDED_ALLOCATABLE: origin_text(origin)}
        )

    def patches(
        self, row: int, node: Node, topology: NodeResourceTopology | None
    ) -> DecidedPatches | None:
        """What is to be sent of a reconciled row as of the last decision.

        Args:
            row: which.
            node, topology: its objects, as they are now.

        Returns:
            None where a node and its zones, if it has any, are not both due; where these are not
            the states that it was decided for; and where its zones are not known as text.
        """
        rows = self._rows
        if row >= len(self._observed) or not (rows.reconciled[row] and rows.node_due[row]):
            return None
        if rows.decided_in[row] == _UNDECIDED or row in self._confirmed:
            return None
        if not is_observed(self._observed[row], node, topology):
            return None
        template = self._template_of[row]
        if topology is not None and (template is None or not rows.zones_due[row]):
            return None
        shown, desired = self._published, self._desired
        origin = desired.origin[:, row].tolist()
        wanted, patch = status_patch(
            node.metadata.resource_version,
            (*shown.batch[:, row].tolist(), *shown.mid[:, row].tolist()),
            (*desired.batch[:, row].tolist(), *desired.mid[:, row].tolist()),
            None if origin == shown.origin[:, row].tolist() else origin,
        )
        if patch is None or topology is None or template is None:
            return None if patch is None else DecidedPatches(wanted, patch)
        zones = desired.zones[:, :, row].tolist()
        text = template.text(zones[CPU], zones[MEMORY])
        zones_after = zones_patch(topology.metadata.resource_version, text)
        return DecidedPatches(wanted, patch, zones_after, text.encode())

    # Transitions.

    def observe(self, row: int) -> RowToken:
        """The row as it is before its node is looked at: a later change makes the token void."""
        self._grow_rows(row + 1)
        return RowToken(int(self._rows.generation[row]), int(self._rows.decided_in[row]))

    def record(
        self, row: int, token: RowToken, inputs: ReconcileInputs, written_at: WriteTimes
    ) -> None:
        """A row is reconciled; nothing happens if the token is void.

        Args:
            row: which.
            token: of before the node was looked at.
            inputs: what it was reconciled from: it shows all that is wanted, but for offers.
            written_at: when the node and its zones were written, monotonic seconds.
        """
        if self._rows.generation[row] != token.generation:
            return
        published = published_amounts(inputs.node, inputs.topology)
        if published is None:
            self.invalidate(row)
            return
        rows, self._observed[row] = self._rows, observed_objects(inputs)
        self._template_of[row] = self._template(inputs.topology)
        rows.reconciled[row], rows.enabled[row] = True, inputs.enabled
        rows.speed[row], rows.held[:, row] = speed(inputs.result), published.held
        rows.node_written_at[row], rows.zones_written_at[row] = written_at
        rows.decided_in[row] = _UNDECIDED
        self._publish(row, published)

    def _publish(self, row: int, published: PublishedAmounts) -> None:
        self._confirmed.discard(row)
        self._grow_zones(max(published.zones, default=-1) + 1)
        columns = self._published
        columns.batch[:, row], columns.mid[:, row] = published.batch, published.mid
        columns.origin[:, row] = published.origin
        columns.zones[:, :, row] = ABSENT
        for number, pair in published.zones.items():
            columns.zones[:, number, row] = pair

    def _template(self, topology: NodeResourceTopology | None) -> ZonesTemplate | None:
        return None if topology is None else self._templates.of(topology)

    def confirm(
        self,
        row: int,
        token: RowToken,
        inputs: ReconcileInputs,
        written_at: WriteTimes,
        *,
        as_decided: bool = False,
    ) -> bool:
        """All that was desired of a row in its last decision has been written, and nothing else.

        Args:
            row: which; it was reconciled when the token was taken.
            token: of before the node was looked at.
            inputs: its objects after the write; their result is not looked at.
            written_at: as of :meth:`record`.
            as_decided: whether the zones are those of :meth:`patches`.

        Returns:
            Whether the row now shows what is desired of it: not if the token is void, nor if the
            row was decided on again meanwhile.
        """
        rows = self._rows
        if not rows.reconciled[row] or token.decided_in == _UNDECIDED:
            return False
        if token != (rows.generation[row], rows.decided_in[row]):
            return False
        self._observed[row] = observed_objects(inputs, self._observed[row].result)
        if not as_decided:
            self._template_of[row] = self._template(inputs.topology)
        rows.node_written_at[row], rows.zones_written_at[row] = written_at
        # As what it shows is what is desired, nothing more is due.
        rows.node_due[row] = rows.zones_due[row] = False
        self._confirmed.add(row)
        return True

    def _bring_confirmed(self) -> None:
        rows = np.array(sorted(self._confirmed), np.intp)
        self._confirmed.clear()
        for published, desired in zip(self._published, self._desired, strict=True):
            published[..., rows] = desired[..., rows]

    def invalidate(self, row: int) -> None:
        """Something else of a row has changed than its offers."""
        self._grow_rows(row + 1)
        self._rows.reconciled[row] = False
        self._rows.generation[row] += 1

    def invalidate_all(self) -> None:
        """Configuration that plugins read has changed."""
        self._rows.reconciled[:] = False
        self._rows.generation[:] += 1

    def decide(self, cache: OvercommitCache, rows: NDArray[np.intp], now: float) -> DueRows:
        """What new offers mean for reconciled rows.

        Where co-location was switched on or off, a row is due and reconciled no more: that is more
        than offers.

        Args:
            cache: has the offers, and the strategies.
            rows: which rows; each is reconciled.
            now: monotonic seconds.
        """
        self._grow_zones(len(cache.zones.present))
        self._bring_confirmed()
        columns, published = take(self._rows, rows), take(self._published, rows)
        strategies = take(cache.settings, rows)
        desired = desired_amounts(cache, rows, columns, published)
        self._passes += 1
        self._rows.decided_in[rows] = self._passes
        for column, values in zip(self._desired, desired, strict=True):
            column[..., rows] = values
        for row in rows[strategies.enable != columns.enabled].tolist():
            self.invalidate(row)
        due = due_rows(published, desired, columns, strategies, now)
        self._rows.node_due[rows], self._rows.zones_due[rows] = due.node_due, due.zones_due
        return due

    # Room.

    def _grow_rows(self, rows: int) -> None:
        have = len(self._observed)
        if rows <= have:
            return
        more, numbers = max(rows, 2 * have, 64) - have, self._published.zones.shape[1]
        self._rows = joined(self._rows, empty_rows(more))
        self._published = joined(self._published, empty_amounts(more, numbers))
        self._desired = joined(self._desired, empty_amounts(more, numbers))
        self._observed += [ObservedObjects()] * more
        self._template_of += [None] * more

    def _grow_zones(self, numbers: int) -> None:
        self._published = with_numbers(self._published, numbers)
        self._desired = with_numbers(self._desired, numbers)
