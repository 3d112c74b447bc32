# SPDX-License-Identifier: Apache-2.0
"""The figures of the published experiment, where its tables lie beside the pod list."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from koord.base.documents import read_text
from koord.base.errors import KoordError
from koord.simulator.openb.result_tables import BINS

Curves = NDArray[np.float64]
"""Shape (seeds, bins); NaN where a bin is empty."""

POLICIES = {
    "01-Random": "random",
    "02-DotProd": "dotprod",
    "03-GpuClustering": "clustering",
    "04-GpuPacking": "packing",
    "05-BestFit": "bestfit",
    "06-FGD": "fgd",
}
TUNED_TO = "1.3"


@dataclass(frozen=True, slots=True)
class PublishedResults:
    """Published curves by policy, in percent, of one pod list at load 1.3.

    Attributes:
        allocated: GPU allocated of all.
        fragmented: fragmentation amount of all.
        ratio: fragmentation amount of what is free.
    """

    allocated: dict[str, Curves]
    fragmented: dict[str, Curves]
    ratio: dict[str, Curves]


def read_published(pods: Path) -> PublishedResults | None:
    """Reads ``published/{alloc,frag_amount,frag_ratio}.csv`` in the folder of a pod list.

    Args:
        pods: the pod list; its file name without ending is what the tables call the workload.

    Returns:
        None where there is no such folder or it does not know the list.

    Raises:
        KoordError: a table is there but cannot be read.
    """
    folder = pods.parent / "published"
    if not folder.is_dir():
        return None
    names = ("alloc", "frag_amount", "frag_ratio")
    tables = [_read(folder / f"{name}.csv", pods.stem) for name in names]
    return PublishedResults(*tables) if tables[0] else None


def _read(path: Path, workload: str) -> dict[str, Curves]:
    by_policy: dict[str, list[list[float]]] = {}
    try:
        for row in csv.DictReader(StringIO(read_text(path), newline=""), strict=True):
            policy = POLICIES.get(row["sc_policy"])
            if policy and row["workload"] == workload and row["tune"] == TUNED_TO:
                cells = [float(row[str(cell)] or "nan") for cell in range(BINS)]
                by_policy.setdefault(policy, []).append(cells)
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        raise KoordError(str(path), "", str(error), "a published table") from error
    return {policy: np.array(rows) for policy, rows in by_policy.items()}
