# SPDX-License-Identifier: Apache-2.0
"""Reads the traces' node and pod lists (alibaba/clusterdata, cluster-trace-gpu-v2023)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from koord.base.documents import read_text
from koord.base.errors import Code, KoordError
from koord.kernels.devices import PodShape
from koord.kernels.placement import GPU_MILLI

# Far above any machine, and low enough that sums over a cluster stay in 64 bits.
MOST_CPU_MILLI = 2**30
MOST_MEMORY_MIB = 2**40
MOST_GPUS = 64


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One row of a node list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class TracePod:
    """One row of a pod list; a CPU-only pod has no GPU milli and no models."""

    name: str
    memory_mib: int
    shape: PodShape

    @property
    def gpu_total_milli(self) -> int:
        """Milli on all its GPUs."""
        return self.shape.gpu_milli * self.shape.gpu_count


class _TraceRow:
    """One CSV row that knows where it stands."""

    def __init__(self, where: str, cells: dict[str, str]) -> None:
        self._where = where
        self._cells = cells

    def text(self, column: str) -> str:
        return self._cells.get(column, "")

    def name(self, column: str, seen: set[str]) -> str:
        name = self.text(column)
        if not name or name in seen:
            raise KoordError(self._where, column, name, "a name that no other row has")
        seen.add(name)
        return name

    def integer(self, column: str, most: int, least: int = 0) -> int:
        text = self.text(column)
        # int() would take signs, underscores and digits of other scripts too.
        digits = text.isascii() and text.isdigit() and len(text) <= 20
        if not digits or not least <= int(text) <= most:
            raise KoordError(self._where, column, text, f"an integer from {least} to {most}")
        return int(text)


def read_nodes(path: Path) -> list[TraceNode]:
    """Reads ``sn,cpu_milli,memory_mib,gpu,model``; further columns are ignored.

    Raises:
        KoordError: one line with file, line, column and value.
    """
    seen: set[str] = set()
    nodes = [
        TraceNode(
            name=row.name("sn", seen),
            cpu_milli=row.integer("cpu_milli", MOST_CPU_MILLI),
            memory_mib=row.integer("memory_mib", MOST_MEMORY_MIB),
            gpus=row.integer("gpu", MOST_GPUS),
            model=row.text("model"),
        )
        for row in _rows(path, ["sn", "cpu_milli", "memory_mib", "gpu", "model"])
    ]
    if not any(node.gpus for node in nodes):
        raise KoordError(str(path), "gpu", sum(node.gpus for node in nodes), "a node with GPUs")
    return nodes


def read_pods(path: Path) -> list[TracePod]:
    """Reads ``name,cpu_milli,memory_mib,num_gpu,gpu_milli`` and ``gpu_spec`` where there is one.

    Raises:
        KoordError: one line with file, line, column and value.
    """
    seen: set[str] = set()
    required = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"]
    pods = [
        TracePod(row.name("name", seen), row.integer("memory_mib", MOST_MEMORY_MIB), _shape(row))
        for row in _rows(path, required)
    ]
    if not any(pod.gpu_total_milli for pod in pods):
        raise KoordError(str(path), "num_gpu", 0, "a pod with GPUs")
    return pods


def _shape(row: _TraceRow) -> PodShape:
    cpu_milli = row.integer("cpu_milli", MOST_CPU_MILLI)
    gpus = row.integer("num_gpu", MOST_GPUS)
    if gpus == 0:
        return PodShape(cpu_milli)
    gpu_milli = min(row.integer("gpu_milli", MOST_CPU_MILLI, least=1), GPU_MILLI)
    return PodShape(cpu_milli, gpu_milli, gpus, row.text("gpu_spec"))


def _rows(path: Path, required: list[str]) -> Iterator[_TraceRow]:
    lines = StringIO(read_text(path), newline="")
    yield from _checked(path, csv.DictReader(lines, strict=True), required)


def _checked(path: Path, reader: csv.DictReader[str], required: list[str]) -> Iterator[_TraceRow]:
    try:
        header = reader.fieldnames or []
        for column in required:
            if column not in header:
                expected = f"a column {column}"
                raise KoordError(f"{path}:1", "header", ",".join(header), expected, Code.INVALID)
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            # DictReader files surplus cells under None and fills missing ones with it.
            if None in cells or None in cells.values():
                given = sum(cell is not None for cell in cells.values())
                raise KoordError(where, "", f"{given} columns", f"{len(header)} columns")
            yield _TraceRow(where, cells)
    except csv.Error as error:
        raise KoordError(f"{path}:{reader.line_num}", "", str(error), "a CSV row") from error
