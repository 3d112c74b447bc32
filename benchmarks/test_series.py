# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from benchmarks.conftest import Gate
from koord.kernels.series import PERCENTILES, SeriesStore

PODS, SAMPLES = 200, 300
TABLE = np.random.default_rng(1).random((SAMPLES, PODS))
INDICES = [int(np.float32(SAMPLES) * np.float32(share)) - 1 for share in PERCENTILES]


def filled() -> tuple[SeriesStore, list[int]]:
    store = SeriesStore(SAMPLES)
    ids = [store.add() for _ in range(PODS)]
    for second, row in enumerate(TABLE):
        store.append(1000 * second, ids, row)
    return store, ids


def plain_summary(column: list[float]) -> tuple[float, float, list[float]]:
    ordered = sorted(column)
    return sum(column) / len(column), column[-1], [ordered[index] for index in INDICES]


def test_summarize_against_lists(gate: Gate) -> None:
    store, ids = filled()
    columns = TABLE.T.tolist()
    gate(
        "series: 200 x 300 samples, plain lists",
        lambda: store.summarize(ids, 0, 1000 * SAMPLES),
        lambda: [plain_summary(column) for column in columns],
        1.5,
    )


def test_summarize_against_numpy(gate: Gate) -> None:
    store, ids = filled()

    def sorted_by_numpy() -> object:
        ordered = np.sort(TABLE, axis=0)
        return TABLE.mean(axis=0), TABLE[-1], ordered[INDICES]

    ours = store.summarize(ids, 0, 1000 * SAMPLES)
    _, last, percentiles = sorted_by_numpy()  # type: ignore[misc]
    np.testing.assert_array_equal(ours.last, last)
    np.testing.assert_array_equal(ours.percentiles.T, percentiles)
    gate(
        "series: 200 x 300 samples, NumPy sort",
        lambda: store.summarize(ids, 0, 1000 * SAMPLES),
        sorted_by_numpy,
        0.5,
    )


def test_append(gate: Gate) -> None:
    store, ids = filled()
    id_column = np.array(ids)
    rows: list[list[tuple[int, float]]] = [[] for _ in ids]
    row = TABLE[0]
    now = [1000 * SAMPLES]

    def ours() -> None:
        now[0] += 1000
        store.append(now[0], id_column, row)

    def plain() -> None:
        now[0] += 1000
        for series, value in zip(rows, row.tolist(), strict=True):
            series.append((now[0], value))
            if len(series) > SAMPLES:
                del series[0]

    gate("series: append a tick of 200", ours, plain, 2.0)
