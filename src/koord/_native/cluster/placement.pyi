# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from koord._native.cluster.devices import Device, FragmentationMeasure

class Node:
    def __init__(
        self,
        name: str,
        capacity: Sequence[int],
        model: str,
        labels: Sequence[str],
        gpus: Sequence[Device],
    ) -> None: ...

class Shape:
    def __init__(
        self,
        request: Sequence[int],
        scored: Sequence[int],
        gpu_each: Sequence[int],
        gpu_count: int,
        models: Sequence[str],
        labels: Sequence[str],
    ) -> None: ...

class Placement:
    def __init__(self, row: int, shape: int, gpus: int) -> None: ...
    @property
    def row(self) -> int: ...
    @property
    def shape(self) -> int: ...
    @property
    def gpus(self) -> int: ...

class NodeTable:
    def __init__(self, resources: Sequence[str], gpu_resources: Sequence[str]) -> None: ...
    @property
    def resources(self) -> list[str]: ...
    def __len__(self) -> int: ...
    @property
    def shapes(self) -> int: ...
    @property
    def version(self) -> int: ...
    def add_node(self, node: Node, /) -> int: ...
    def close_node(self, row: int, /) -> None: ...
    def set_capacity(self, row: int, capacity: Sequence[int], /) -> None: ...
    def set_gpus(self, row: int, gpus: Sequence[Device], /) -> None: ...
    def mirror(self, row: int, free: Sequence[int], gpu_milli: Sequence[int], /) -> None: ...
    def row(self, name: str, /) -> int: ...
    def name(self, row: int, /) -> str: ...
    def model(self, row: int, /) -> str: ...
    def set_ranks(self, ranks: Sequence[int], /) -> None: ...
    def capacity(self, resource: int, /) -> NDArray[np.int64]: ...
    def free(self, resource: int, /) -> NDArray[np.int64]: ...
    def scored(self, resource: int, /) -> NDArray[np.int64]: ...
    def gpus_free(self, row: int, resource: int, /) -> list[int]: ...
    def gpus_free_sums(self) -> NDArray[np.int64]: ...
    def gpus_total_sums(self) -> NDArray[np.int64]: ...
    def intern(self, shape: Shape, /) -> int: ...
    def filter(self, shape: int, /) -> NDArray[np.uint8]: ...
    def commit(self, placement: Placement, /) -> None: ...
    def remove(self, placement: Placement, /) -> None: ...
    def mark(self) -> int: ...
    def undo(self, mark: int, /) -> None: ...
    def forget(self) -> None: ...

def policy_names() -> list[str]: ...

class Placer:
    def __init__(
        self,
        table: NodeTable,
        policy: str,
        seed: int,
        fragmentation: FragmentationMeasure | None,
        weights: Sequence[int],
    ) -> None: ...
    @property
    def policy(self) -> str: ...
    def pick(self, shape: int, /) -> Placement | None: ...
    def place(self, shape: int, /) -> Placement | None: ...
    def place_batch(
        self, shapes: Sequence[int], all_or_none: bool, /
    ) -> list[Placement | None]: ...
    def rate(self, shape: int, rows: NDArray[np.int64], /) -> NDArray[np.int32]: ...
    def choose_gpus(self, shape: int, row: int, /) -> int: ...
    def arrived(self, shape: int, /) -> None: ...
    def epoch(self, shape: int, /) -> int: ...
    def score(self, shape: int, /) -> tuple[NDArray[np.uint8], NDArray[np.int32]]: ...

class Replay:
    def __init__(
        self, table: NodeTable, placer: Placer, fragmentation: FragmentationMeasure
    ) -> None: ...
    def run(self, arrivals: NDArray[np.uint32], /) -> None: ...
    def finish(
        self,
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.int32],
    ]: ...

Rows = slice | NDArray[np.int64]

class Ranks:
    def __init__(self, rows: int, ranks: NDArray[np.int64]) -> None: ...
    @property
    def rows(self) -> int: ...

class Board:
    def __init__(
        self, rows: int, scores: Sequence[tuple[int, int]], ranks: Ranks | None = None
    ) -> None: ...
    def reset(self, scores: Sequence[tuple[int, int]], keep_closed: bool = False) -> None: ...
    def set_ranks(self, ranks: Ranks | NDArray[np.int64], /) -> None: ...
    def refuse(self, number: int, rows: Rows, passes: NDArray[np.bool_], /) -> None: ...
    def clear(self, number: int, /) -> None: ...
    def rate(self, score: int, rows: Rows, raw: NDArray[np.int64], /) -> None: ...
    def skip(self, score: int, /) -> None: ...
    def best(self) -> int: ...
    def best_of(self, mask: NDArray[np.bool_], /) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def feasible(self) -> int: ...
    @property
    def flips(self) -> int: ...
    @property
    def refused(self) -> NDArray[np.uint64]: ...
    def raw(self, score: int, /) -> NDArray[np.int64]: ...

class RoomCheck:
    def __init__(self, asked: Sequence[tuple[int, int]]) -> None: ...
    def asking(self, amounts: Sequence[int], /) -> RoomCheck: ...
    def check(
        self,
        allocatable: NDArray[np.int64],
        requested: NDArray[np.int64],
        nonzero: NDArray[np.int64],
        rows: Rows,
        /,
    ) -> NDArray[np.bool_]: ...

class RoomScore:
    def __init__(
        self,
        strategy: int,
        counted: Sequence[tuple[int, int, int, bool]],
        corners: Sequence[tuple[int, int]],
    ) -> None: ...
    def requesting(self, requests: Sequence[int], /) -> RoomScore: ...
    def score(
        self,
        allocatable: NDArray[np.int64],
        requested: NDArray[np.int64],
        nonzero: NDArray[np.int64],
        rows: Rows,
        /,
    ) -> NDArray[np.int64]: ...

class Rooms:
    def __init__(
        self,
        checks: Sequence[tuple[int, RoomCheck]],
        scores: Sequence[tuple[int, RoomScore]],
    ) -> None: ...
    def put(
        self,
        board: Board,
        allocatable: NDArray[np.int64],
        requested: NDArray[np.int64],
        nonzero: NDArray[np.int64],
        rows: Rows,
        /,
    ) -> None: ...

class RoomsTemplate:
    def __init__(
        self,
        rooms: Rooms,
        checks: Sequence[Sequence[int]],
        scores: Sequence[Sequence[int]],
    ) -> None: ...
    def of(self, amounts: Sequence[int], /) -> Rooms: ...

class ReservedBounds:
    def __init__(self) -> None: ...
    def update(
        self,
        reserved: Sequence[NDArray[np.int64]],
        slots: NDArray[np.int64],
        rows: Rows,
        /,
    ) -> None: ...

_ReservedAnswers: TypeAlias = tuple[
    ReservedBounds,
    int,
    NDArray[np.int64],
    NDArray[np.int64],
    Sequence[NDArray[np.int64]],
    NDArray[np.int64],
    Sequence[tuple[int, int, int, bool, bool, bool]],
    bool,
    bool,
]

_LoadCheck = tuple[
    NDArray[np.int64], NDArray[np.int64], Sequence[int], NDArray[np.float64], float, bool
]
_Load = tuple[
    int, int, NDArray[np.int64], NDArray[np.int64], Sequence[int], Sequence[int], int,
    NDArray[np.float64], float,
]  # fmt: skip

class RowBounds:
    def __init__(self, keeps_order: bool = False) -> None: ...
    def update(
        self,
        allocatable: NDArray[np.int64],
        requested: NDArray[np.int64],
        nonzero: NDArray[np.int64],
        rows: Rows,
        open_rows: NDArray[np.bool_],
        ranks: NDArray[np.int64],
        /,
    ) -> None: ...
    def best(
        self,
        rooms: Rooms,
        weights: Sequence[int],
        masks: Sequence[NDArray[np.bool_]] = ...,
        ratings: Sequence[tuple[int, int, NDArray[np.int64]]] = ...,
        reserved: _ReservedAnswers | None = ...,
        bit_masks: Sequence[NDArray[np.uint64]] = ...,
        preferences: Sequence[tuple[int, Sequence[tuple[int, NDArray[np.uint64]]]]] = ...,
        load_checks: Sequence[_LoadCheck] = ...,
        loads: Sequence[_Load] = ...,
    ) -> int: ...
    @property
    def looked_at(self) -> int: ...

class RowClasses:
    def __init__(self, most: int) -> None: ...
    def update(
        self,
        allocatable: NDArray[np.int64],
        requested: NDArray[np.int64],
        nonzero: NDArray[np.int64],
        rows: Rows,
        open_rows: NDArray[np.bool_],
        ranks: NDArray[np.int64],
        /,
    ) -> bool: ...
    def clear(self) -> None: ...
    def best(self, rooms: Rooms, weights: Sequence[int], /) -> int: ...
    def __len__(self) -> int: ...

def changed_rows(
    journal: list[int], start: int, /
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int]: ...
def count_pod(
    requested: NDArray[np.int64],
    nonzero: NDArray[np.int64],
    row: int,
    index: NDArray[np.int64],
    amounts: NDArray[np.int64],
    cpu: int,
    memory: int,
    times: int,
    /,
) -> None: ...
def spread_scores(
    parts: Sequence[
        tuple[NDArray[np.int32], NDArray[np.int32] | None, NDArray[np.int64], float, int]
    ],
    rated: NDArray[np.bool_],
    rows: Rows,
    /,
) -> NDArray[np.int64]: ...
def load_scores(
    used: NDArray[np.int64],
    capacity: NDArray[np.int64],
    amounts: Sequence[int],
    weights: Sequence[int],
    dominant: int,
    until: NDArray[np.float64],
    now: float,
    rows: Rows,
    /,
) -> NDArray[np.int64]: ...
def load_within(
    used: NDArray[np.int64],
    limit: NDArray[np.int64],
    amounts: Sequence[int],
    until: NDArray[np.float64],
    now: float,
    expired: bool,
    rows: Rows,
    /,
) -> NDArray[np.bool_]: ...

ReservedAmount = tuple[int, int, int, bool, bool, bool]

def reserved_fit(
    allocatable: NDArray[np.int64],
    requested: NDArray[np.int64],
    reserved: Sequence[NDArray[np.int64]],
    rows: NDArray[np.intp],
    slots: NDArray[np.intp],
    amounts: Sequence[ReservedAmount],
) -> NDArray[np.uint8]: ...
def reserved_scores(
    reserved: Sequence[NDArray[np.int64]],
    slots: NDArray[np.intp],
    amounts: Sequence[ReservedAmount],
) -> NDArray[np.int64]: ...
