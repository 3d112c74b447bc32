# SPDX-License-Identifier: Apache-2.0
"""A round's samples as columns: a value a series, not an object a sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from koord.agent.metrics.metric_kinds import MetricKind

Labels = tuple[str, ...]
Keys = tuple[Labels, ...]
NO_LABELS: Keys = ((),)


class SampleColumn(NamedTuple):
    """Samples of one kind.

    Attributes:
        kind: what was measured.
        labels: label values a row, in the kind's order. The same object again means the same rows:
            whoever keeps a tuple from round to round spares the cache to look every row up.
        values: float64, a value a row; NaN is "no sample".
    """

    kind: MetricKind
    labels: Keys
    values: NDArray[np.float64]


@dataclass(slots=True)
class Samples:
    """What one collector measured in one round.

    Attributes:
        time_ms: wall time.
        columns: one or more a kind.
    """

    time_ms: int
    columns: list[SampleColumn] = field(default_factory=list)

    def add(self, kind: MetricKind, labels: Keys, values: ArrayLike) -> None:
        """A column; an empty one is left out."""
        if labels:
            self.columns.append(SampleColumn(kind, labels, np.asarray(values, np.float64)))

    def one(self, kind: MetricKind, value: float | None) -> None:
        """A single number of a kind without labels; None is no sample."""
        if value is not None:
            self.add(kind, NO_LABELS, [value])
