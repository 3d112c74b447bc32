# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class Choice:
    FIRST: Choice
    BEST: Choice
    WORST: Choice
    RANDOM: Choice

class Strategy:
    NONE: Strategy
    LEAST_ALLOCATED: Strategy
    MOST_ALLOCATED: Strategy

class Device:
    def __init__(
        self,
        minor: int,
        total: Sequence[int],
        numa_node: int,
        pcie: int,
        labels: Sequence[str],
        healthy: bool,
    ) -> None: ...

class Request:
    def __init__(self, each: Sequence[int], count: int) -> None: ...
    @property
    def each(self) -> list[int]: ...
    @property
    def count(self) -> int: ...

class Constraints:
    def __init__(
        self,
        numa_nodes: int | None,
        required: int | None,
        preferred: int,
        preferred_pcies: Sequence[int],
        labels: Sequence[str],
    ) -> None: ...

class Scoring:
    def __init__(self, strategy: Strategy, weights: Sequence[int]) -> None: ...

class PartitionTable:
    def __init__(self, partitions: Sequence[tuple[int, int, int | None]]) -> None: ...

class DeviceTable:
    def __init__(self, resources: Sequence[str]) -> None: ...
    @property
    def resources(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def add_row(self, devices: Sequence[Device], /) -> int: ...
    def update_row(self, row: int, devices: Sequence[Device], /) -> None: ...
    def free(self, row: int, resource: int, /) -> list[int]: ...
    def total(self, row: int, resource: int, /) -> list[int]: ...
    def used(self, row: int, resource: int, /) -> list[int]: ...
    def fitting(self, row: int, each: Sequence[int], /) -> int: ...
    def idle(self, row: int, /) -> int: ...
    def listed(self, row: int, /) -> int: ...
    def set_partitions(
        self, row: int, partitions: PartitionTable | None, honour: bool, /
    ) -> None: ...
    def charge(self, row: int, minor: int, each: Sequence[int], /) -> None: ...
    def discharge(self, row: int, minor: int, each: Sequence[int], /) -> None: ...
    def choose(self, row: int, request: Request, choice: Choice, seed: int, /) -> int: ...
    def allocate(
        self, row: int, request: Request, constraints: Constraints, scoring: Scoring, /
    ) -> int: ...
    def score(self, row: int, request: Request, scoring: Scoring, /) -> int: ...
    def take(self, row: int, minors: int, each: Sequence[int], /) -> None: ...
    def give_back(self, row: int, minors: int, each: Sequence[int], /) -> None: ...

class PodShape:
    def __init__(self, cpu_milli: int, gpu_milli: int, gpu_count: int, gpu_spec: str) -> None: ...
    @property
    def cpu_milli(self) -> int: ...
    @property
    def gpu_milli(self) -> int: ...
    @property
    def gpu_count(self) -> int: ...
    @property
    def gpu_spec(self) -> str: ...

def typical_pods(
    counts: Sequence[tuple[PodShape, int]], coverage_percent: int, /
) -> list[tuple[PodShape, float]]: ...

class FragmentationMeasure:
    def __init__(self, pods: Sequence[tuple[PodShape, float]], /) -> None: ...
    def sums(self, cpu_milli: int, gpu_milli: Sequence[int], model: str, /) -> list[float]: ...

def complete_memory(size_bytes: int, percent: int, card_bytes: int, /) -> tuple[int, int]: ...
def fragment_amount(sums: Sequence[float], /) -> float: ...
def gradient_score(before_milli: float, after_milli: float, /) -> int: ...

class Scope:
    ANY: Scope
    NODE: Scope
    NUMA_NODE: Scope
    PCIE: Scope
    DEVICE: Scope

class Refusal:
    NONE: Refusal
    TOO_FEW: Refusal
    NO_PARTITIONS: Refusal
    NO_PARTITION_SIZE: Refusal
    PARTITIONS_TAKEN: Refusal
    NO_TOPOLOGY: Refusal
    MANY_SHARES: Refusal
    SCOPES_TAKEN: Refusal
    GROUPS_TAKEN: Refusal
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class Demand:
    def __init__(
        self,
        each: Sequence[int],
        count: int,
        grouped: bool,
        shared: bool,
        scope: Scope,
        honour_partition: bool,
        best_partition_only: bool,
        bandwidth_bps: int,
        whole_pcie: bool,
    ) -> None: ...

class Offer:
    def __init__(
        self,
        numa_nodes: int | None,
        allowed: int | None,
        preferred: int,
        preferred_pcies: Sequence[int],
        returned: Sequence[tuple[int, Sequence[int]]],
        caps: Sequence[tuple[int, Sequence[int]]] | None,
    ) -> None: ...

def assign(
    table: DeviceTable, row: int, demand: Demand, offer: Offer, scoring: Scoring, /
) -> tuple[Refusal, int]: ...
def assign_rows(
    table: DeviceTable, rows: NDArray[np.int64], demand: Demand, /
) -> NDArray[np.uint8]: ...
def offered_score(
    table: DeviceTable, row: int, demand: Demand, offer: Offer, scoring: Scoring, /
) -> int: ...
def score_rows(
    table: DeviceTable, rows: NDArray[np.int64], request: Request, scoring: Scoring, /
) -> NDArray[np.int64]: ...
