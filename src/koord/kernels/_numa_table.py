# SPDX-License-Identifier: Apache-2.0
"""Zone amounts in native form: made once, asked about often. See `koord.kernels.numa`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from koord._native.cluster import numa as _native
from koord.kernels._numa_types import (
    Amounts,
    CpuBinding,
    Distribution,
    HintList,
    Scorer,
    TopologyPolicy,
    Zones,
    by_position,
    columns_of,
    int64,
    kind_of,
)

if TYPE_CHECKING:
    from koord._native.cluster.numa import Column

_CPU = "cpu"
_NO_ROW: Mapping[str, int] = {}


class Frame:
    """Which zones and resources tables are about; tables are combined within one frame only.

    Resources that the frame does not name count nowhere.
    """

    __slots__ = ("_index", "_kinds", "_nothing", "_scorers", "names", "zones")

    def __init__(self, zones: Zones, names: Iterable[str]) -> None:
        self.zones = zones
        self.names = tuple(sorted(names))
        self._index = {name: place for place, name in enumerate(self.names)}
        self._kinds = [kind_of(name) for name in self.names]
        self._nothing = columns_of({}, zones, self.names)
        self._scorers: dict[int, tuple[Scorer, _native.Scorer]] = {}

    def table(self, amounts: Amounts) -> ZoneTable:
        """A table of amounts by zone id; KeyError for a zone that the frame does not have."""
        if not amounts:
            return ZoneTable(self, self._nothing, 0)
        mentioned = self.zones.mask(amounts)
        rows = [amounts.get(zone, _NO_ROW) for zone in self.zones.ids]
        columns = [
            _native.Column(
                kind,
                sum(1 << position for position, row in enumerate(rows) if name in row),
                [int64(name, row.get(name, 0)) for row in rows],
            )
            for name, kind in zip(self.names, self._kinds, strict=True)
        ]
        return ZoneTable(self, columns, mentioned)

    def demands(
        self, requests: Mapping[str, int], scored: Mapping[str, int]
    ) -> tuple[list[str], list[_native.Demand]]:
        """The requested resources that the frame names, sorted, and what is asked of them."""
        names = sorted(name for name in requests if name in self._index)
        return names, [
            _native.Demand(
                self._index[name],
                int64(name, requests[name]),
                int64(name, scored.get(name, requests[name])),
            )
            for name in names
        ]

    def _native_scorer(self, scorer: Scorer) -> _native.Scorer:
        known = self._scorers.get(id(scorer))
        if known is None:
            known = self._scorers[id(scorer)] = (scorer, scorer._to_native(self.names))
        return known[1]


class ZoneTable:
    """Amounts by zone and resource; immutable."""

    __slots__ = ("_columns", "_mentioned", "frame")

    def __init__(self, frame: Frame, columns: list[Column], mentioned: int) -> None:
        self.frame = frame
        self._columns = columns
        self._mentioned = mentioned

    def of(self, name: str) -> dict[int, int] | None:
        """The amounts of one resource by zone id, 0 where not listed; None if nobody names it."""
        place = self.frame._index.get(name)
        if place is None:
            return None
        return dict(zip(self.frame.zones.ids, self._columns[place].amount, strict=True))

    def amounts(self) -> dict[int, dict[str, int]]:
        """The table as mappings; resources that a zone does not list are left out."""
        rows: dict[int, dict[str, int]] = {zone: {} for zone in self.frame.zones.ids}
        for name, column in zip(self.frame.names, self._columns, strict=True):
            listed, amounts = column.listed, column.amount
            for position, zone in enumerate(self.frame.zones.ids):
                if listed >> position & 1:
                    rows[zone][name] = amounts[position]
        return rows

    def available(
        self,
        used: ZoneTable,
        reusable: ZoneTable | None = None,
        *,
        bound_cpus: Mapping[int, int] | None = None,
        cpu_ratio: float = 1.0,
    ) -> ZoneTable:
        """What zones have left of this table; as :func:`koord.kernels.numa.available`."""
        frame = self.frame
        back = reusable._columns if reusable is not None else frame._nothing
        bound = by_position(bound_cpus, frame.zones) if bound_cpus else [0] * len(frame.zones)
        left = _native.available(
            self._columns, used._mentioned, used._columns, back, bound, cpu_ratio
        )
        return ZoneTable(frame, left, frame.zones.all)

    def capped(self, cpus: CpuBinding) -> ZoneTable:
        """The table with each zone's CPU cut to what it can bind."""
        place = self.frame._index.get(_CPU)
        if place is None:
            return self
        column = self._columns[place]
        amounts = [
            min(amount, cpus.bindable.get(zone, 0) * 1000) if amount else 0
            for zone, amount in zip(self.frame.zones.ids, column.amount, strict=True)
        ]
        columns = list(self._columns)
        columns[place] = _native.Column(_native.Kind.CPU, column.listed, amounts)
        return ZoneTable(self.frame, columns, self._mentioned)

    def distribute(
        self, requests: Mapping[str, int], affinity: Iterable[int], cpus: CpuBinding | None = None
    ) -> Distribution:
        """Spreads requests over zones; as :func:`koord.kernels.numa.distribute`."""
        zones = self.frame.zones
        names, demands = self.frame.demands(requests, requests)
        native = None if cpus is None else cpus._to_native(zones)
        count = len(zones)
        mask = zones.mask(affinity)
        taken, missing = _native.distribute(self._columns, demands, mask, count, native)
        by_zone: dict[int, dict[str, int]] = {}
        for position, zone in enumerate(zones.ids):
            shares = {
                name: taken[place * count + position]
                for place, name in enumerate(names)
                if taken[place * count + position]
            }
            if shares:
                by_zone[zone] = shares
        return Distribution(by_zone, tuple(names[place] for place in missing))

    def hints(
        self,
        judged: ZoneTable,
        requests: Mapping[str, int],
        policy: TopologyPolicy,
        pools: Sequence[tuple[ZoneTable, CpuBinding | None]],
        *,
        amplified: Mapping[str, int] | None = None,
        scorer: Scorer | None = None,
    ) -> dict[str, HintList]:
        """Sets of zones on which a pod fits, this table being what there is in all.

        As :func:`koord.kernels.numa.generate_hints`, with ``judged`` for ``available``.
        """
        frame = self.frame
        names, demands = frame.demands(requests, amplified or requests)
        lists = _native.generate_hints(
            len(frame.zones),
            self._columns,
            judged._columns,
            demands,
            [
                _native.Pool(left._columns, None if cpus is None else cpus._to_native(frame.zones))
                for left, cpus in pools
            ],
            None if scorer is None else frame._native_scorer(scorer),
            policy is TopologyPolicy.RESTRICTED,
        )
        pairs = zip(names, lists, strict=True)
        return {name: HintList._wrap(hints) for name, hints in pairs if hints is not None}
