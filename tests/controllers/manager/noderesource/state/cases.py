# SPDX-License-Identifier: Apache-2.0
"""Reconciled nodes, what they are to offer, and what is decided of each by itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from koord.api import Node, NodeResourceTopology
from koord.api.protocol import keys
from koord.controllers.manager.noderesource.plugins.plugin import CalculatedResources, DesiredNode
from koord.controllers.manager.noderesource.plugins.plugin_chain import PluginChain
from koord.controllers.manager.noderesource.state.observed import ReconcileInputs
from koord.controllers.manager.noderesource.state.reconciled_nodes import ReconciledNodes
from koord.controllers.manager.noderesource.writers import zone_patches
from koord.controllers.manager.noderesource.writers.node_patches import status_due, status_patch
from koord.controllers.manager.overcommit.formulas.batch import OfferedAmounts
from koord.controllers.manager.overcommit.formulas.zones import ZoneColumns
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason
from tests.controllers.manager.noderesource import builders

NAMES = (
    "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory",
    "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory",
)  # fmt: skip
BATCH = NAMES[:2]
NOW, PAUSE = 10_000.0, 300
OFFERS = PluginChain(("MidResource", "BatchResource"), lambda *told: None)

# Close together, so that what differs by less than the threshold is among them.
amount = st.sampled_from([0, 1, 900, 1000, 1001, 1090, 1100, 1101, 1500, 2**40])
pair = st.tuples(amount, amount)
four = st.tuples(amount, amount, amount, amount)


class Case(NamedTuple):
    """A reconciled node, and what it is to offer now.

    Attributes:
        shown: batch and mid, None for no such resources.
        origin: of batch, by name; None without the annotation.
        held: by third parties.
        speed: of its CPUs.
        zones: what two zones show, memory in thousandths; None for nothing.
        offered, zone_offers: now; None where the node offers nothing, or the zone is not there.
        share: ``resourceDiffThreshold``.
        ages: seconds since the node and its zones were written.
    """

    shown: tuple[int, int, int, int] | None
    origin: dict[str, int] | None
    held: tuple[int, int]
    speed: float | None
    zones: tuple[tuple[int, int] | None, ...]
    offered: tuple[int, int, int, int] | None
    zone_offers: tuple[tuple[int, int] | None, ...]
    share: float
    ages: tuple[float, float]

    def node(self) -> Node:
        shown = dict(zip(NAMES, map(str, self.shown), strict=True)) if self.shown else {}
        notes = {}
        if self.origin is not None:
            resources = {name: str(count) for name, count in self.origin.items()}
            notes[keys.ORIGIN_EXTENDED_ALLOCATABLE] = json.dumps({"resources": resources})
        if any(self.held):
            held = dict(zip(BATCH, map(str, self.held), strict=True))
            entry = {"name": "x", "priority": "koord-batch", "resources": held}
            notes[keys.THIRD_PARTY_ALLOCATIONS] = json.dumps({"allocations": [entry]})
        return builders.node(shown, annotations=notes)

    def topology(self) -> NodeResourceTopology:
        def told(name: str, text: str) -> dict[str, str]:
            return {"name": name, "capacity": text, "allocatable": text, "available": text}

        return builders.topology(
            [
                {
                    "name": f"node-{number}", "type": "Node",
                    "resources": [
                        told("cpu", "8"),
                        *([told(BATCH[0], str(shown[0])), told(BATCH[1], f"{shown[1]}m")]
                          if shown else []),
                    ],
                }
                for number, shown in enumerate(self.zones)
            ]
        )  # fmt: skip

    def result(self) -> CalculatedResources:
        ratio = None if self.speed is None else f"{self.speed:.2f}"
        return CalculatedResources(
            {}, {} if ratio is None else {keys.CPU_NORMALIZATION_RATIO: ratio}, {}
        )

    def inputs(self) -> ReconcileInputs:
        return ReconcileInputs(self.node(), self.topology(), None, self.result(), True)

    def wanted(self, node: Node | None = None) -> DesiredNode:
        """What plugins want of the node; of another one, if that is given."""
        batch, mid = (self.offered[:2], self.offered[2:]) if self.offered else (None, None)
        seen = builders.seen(node or self.node(), batch=batch, mid=mid)
        return OFFERS.wanted(seen.node, OFFERS.result(seen, True, self.result()))

    def wanted_zones(self) -> dict[str, zone_patches.BatchPair]:
        """What zones are to offer, by name."""
        return {
            f"node-{number}": zone_patches.amounts(*offer, self.speed or 1.0)
            for number, offer in enumerate(self.zone_offers)
            if offer is not None and self.offered is not None
        }

    def plain(
        self, node: Node | None = None, topology: NodeResourceTopology | None = None
    ) -> tuple[bool, float]:
        """Whether anything is written now, and else after how many seconds."""
        node, topology = node or self.node(), topology or self.topology()
        wanted, offers = self.wanted(node), self.wanted_zones()
        late, zones_late = (age > PAUSE for age in self.ages)
        differs = status_patch(node, wanted) is not None
        due = status_due(node, wanted, self.share) or (late and differs)
        zones_differ = (
            zone_patches.updated_zones(topology, offers, self.share, late=True) is not None
        )
        zones_due = (
            zone_patches.updated_zones(topology, offers, self.share, late=zones_late) is not None
        )
        if due or zones_due:
            return True, float("inf")
        left = [
            max(0.0, PAUSE - age)
            for age, differ in zip(self.ages, (differs, zones_differ), strict=True)
            if differ
        ]
        return False, min(left, default=float("inf"))


zone = st.none() | pair
cases = st.builds(
    Case,
    shown=st.none() | four,
    origin=st.none() | st.dictionaries(st.sampled_from(BATCH), amount),
    held=st.just((0, 0)) | pair,
    speed=st.sampled_from([None, 1.0, 1.01, 1.22, 3.33]),
    zones=st.tuples(zone, zone),
    offered=st.none() | four,
    zone_offers=st.tuples(zone, zone),
    share=st.sampled_from([0.0, 0.05, 0.1, 1.0]),
    ages=st.tuples(*2 * [st.sampled_from([0.0, 299.0, 300.0, 301.0, float("inf")])]),
)


def cache_of(rows: list[Case]) -> Any:
    """The columns that are read of an overcommit cache."""

    def column(part: slice) -> Any:
        return np.array([(case.offered or (0, 0, 0, 0))[part] for case in rows], np.int64).T

    degraded = [DegradeReason.NO if case.offered else DegradeReason.EXPIRED for case in rows]
    there = np.array([[z is not None for z in case.zone_offers] for case in rows]).T
    amounts = [[z if z and case.offered else (0, 0) for z in case.zone_offers] for case in rows]
    reasons = np.array(degraded, np.uint8)
    return SimpleNamespace(
        batch=OfferedAmounts(column(slice(0, 2)), reasons),
        mid=OfferedAmounts(column(slice(2, 4)), reasons),
        zones=ZoneColumns(there, np.array(0), np.array(0)),
        zone_amounts=np.array(amounts, np.int64).transpose(2, 1, 0),
        settings=Settings(
            np.ones(len(rows), np.bool_),
            np.array([case.share for case in rows]),
            np.full(len(rows), PAUSE),
        ),
    )


class Settings(NamedTuple):
    """The part of settings that counts here."""

    enable: Any
    diff_threshold: Any
    update_seconds: Any


def reconciled(rows: list[Case]) -> ReconciledNodes:
    found = ReconciledNodes()
    for row, case in enumerate(rows):
        at = NOW - case.ages[0], NOW - case.ages[1]
        found.record(row, found.observe(row), case.inputs(), at)
    return found


def change(node: Node, wanted: DesiredNode) -> Any:
    patch = status_patch(node, wanted)
    if patch is None:
        return None
    document = json.loads(patch.body)
    for text in (notes := document["metadata"].get("annotations", {})).copy():
        notes[text] = json.loads(notes[text])
    return document


CASE = Case(
    (1000, 1000, 5, 5), {BATCH[0]: 1000, BATCH[1]: 1000}, (0, 0), None, ((500, 5),),
    (1000, 1000, 5, 5), ((500, 5),), 0.1, (0.0, 0.0),
)  # fmt: skip
