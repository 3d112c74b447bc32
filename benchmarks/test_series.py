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
        5.0,
    )


def test_summarize_against_numpy(gate: Gate) -> None:
    """Against NumPy as pods that come and go allow: each has times and values of its own."""
    store, ids = filled()
    times = [1000 * np.arange(SAMPLES) for _ in ids]
    columns = [np.ascontiguousarray(column) for column in TABLE.T]
    end_ms = 1000 * SAMPLES

    def by_numpy() -> list[tuple[float, float, object]]:
        rows = []
        for time_ms, column in zip(times, columns, strict=True):
            window = column[(time_ms >= 0) & (time_ms <= end_ms)]
            rows.append((window.mean(), window[-1], np.sort(window)[INDICES]))
        return rows

    ours, rows = store.summarize(ids, 0, end_ms), by_numpy()
    np.testing.assert_array_equal(ours.last, [last for _, last, _ in rows])
    np.testing.assert_array_equal(ours.percentiles, [percentiles for *_, percentiles in rows])
    np.testing.assert_allclose(ours.avg, [average for average, *_ in rows])
    gate(
        "series: 200 x 300 samples, NumPy per series",
        lambda: store.summarize(ids, 0, end_ms),
        by_numpy,
        1.2,
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

    gate("series: append a tick of 200", ours, plain, 5.0)
