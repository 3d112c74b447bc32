# SPDX-License-Identifier: Apache-2.0
"""Whatever a caller hands to a kernel: an exception of one line, never the end of the process.

A crash here ends the test run, which is how it shows.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from koord._native.cluster import placement as native
from koord.kernels import numa
from koord.kernels.cgroup import Reader
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet
from koord.kernels.devices import Device, DeviceTable, Fragmentation, PodShape, TypicalPods
from koord.kernels.histogram import CPU, Histogram
from koord.kernels.placement import NodeTable, Placer, Replay
from koord.kernels.quantity import Quantity
from koord.kernels.quota import Forest, QuotaTree
from koord.kernels.series import Series, SeriesStore
from koord.kernels.topology import CPUState, Topology
from tests.kernels.cgroup_tree import hierarchy

KERNELS = sorted(path.stem for path in (Path(numa.__file__).parent).glob("[!_]*.py"))
JUNK: list[Any] = [
    None, 0, -1, 1.5, float("nan"), 2**31, 2**32 - 1, 2**63, -(2**63), 10**30, True, "", "x\0y",
    "\udcff", "é" * 5000, b"\xff\0", [], [0], [None], [2**63], [[0]], {}, {1: 1}, {"cpu": "x"},
    {"cpu": 2**62}, {f"r{i}": 1 for i in range(100)}, (), object(), np.zeros(0), np.zeros((3, 3)),
    np.array([-1]), np.array([4_000_000_000], np.uint32), np.arange(10, dtype=np.uint32)[::2],
    np.zeros((2, 2), np.uint32).T, np.array(["a"]), np.array(5), np.array([None]),
]  # fmt: skip


def cluster() -> tuple[NodeTable, Fragmentation]:
    table = NodeTable(["cpu", "memory"])
    table.add_node("n0", {"cpu": 4000, "memory": 8}, gpus=4, model="T4")
    table.shape({"cpu": 1000}, gpus=1, gpu_milli=500)
    return table, Fragmentation(TypicalPods.count({PodShape(1000, 500, 1): 1}))


def objects() -> list[object]:
    """One live object of every kind that keeps state in the library."""
    table, fragmentation = cluster()
    placer = Placer(table, "fgd", fragmentation=fragmentation)
    devices = DeviceTable(["core"])
    devices.add_row([Device(0, {"core": 100})])
    tree = QuotaTree({"cpu": 100})
    tree.add("a", max={"cpu": 10})
    store = SeriesStore(4)
    store.append(5, [store.add()], [1.0])
    histogram = Histogram(CPU, 1000)
    histogram.add(1.0, time_ms=5)
    machine = Topology.from_cpus(range(4), core=[0, 0, 1, 1])
    faces = [
        table, placer, devices, tree, Forest({"cpu": 5}), store, Series(4), histogram, CPU, machine,
        CPUState(machine), numa.Zones([0, 1]), Replay(placer, fragmentation), fragmentation,
    ]  # fmt: skip
    natives = [vars(face).values() for face in faces if hasattr(face, "__dict__")]
    return [*faces, *(value for values in natives for value in values)]


def methods() -> Iterator[tuple[str, int, Callable[[object], Callable[..., object]]]]:
    """Name, most arguments and a getter of every public method of ours."""
    for index, thing in enumerate(objects()):
        for name, member in inspect.getmembers(type(thing), callable):
            if name.startswith("_") or not type(thing).__module__.startswith("koord."):
                continue
            arguments = 1 + (member.__doc__ or "").partition("->")[0].count(", arg")
            label = f"{index}-{type(thing).__qualname__}.{name}"
            yield label, arguments, lambda things, i=index, n=name: getattr(things[i], n)


METHODS = list(methods())


@pytest.mark.parametrize(("label", "most", "get"), METHODS, ids=[row[0] for row in METHODS])
def test_junk_is_refused(label: str, most: int, get: Callable[..., Callable[..., object]]) -> None:
    things = objects()
    for junk in JUNK:
        for count in {1, 2, 3, most}:
            assert "\n" not in refusal(get(things), *[junk] * count)


def refusal(call: Callable[..., object], *arguments: object) -> str:
    """The message for a wrong value; a wrong type may have the signatures in its message."""
    try:
        call(*arguments)
    except (ValueError, KeyError, OSError) as error:
        return str(error)
    except (TypeError, AttributeError, IndexError, OverflowError):
        return ""
    return ""


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_can_be_imported_alone(kernel: str) -> None:
    subprocess.run([sys.executable, "-c", f"import koord.kernels.{kernel}"], check=True)


def test_a_replay_refuses_what_its_table_does_not_have() -> None:
    table, fragmentation = cluster()
    replay = Replay(Placer(table, "fit"), fragmentation)
    with pytest.raises(KeyError, match="shape: got '4000000000', expected a shape of the table"):
        replay.run(np.array([0, 4_000_000_000], np.uint32))
    table.add_node("n1", {"cpu": 1000})
    with pytest.raises(ValueError, match="table: got '2 nodes', expected the 1 of the replay's"):
        replay.run(np.array([0], np.uint32))
    assert len(replay.finish().node) == 0


def test_a_replay_takes_placers_of_its_table_only() -> None:
    table, fragmentation = cluster()
    stranger = Placer(cluster()[0], "fit")
    with pytest.raises(ValueError, match="expected one of the replay's table"):
        native.Replay(table.native, stranger.native, fragmentation.native)


def test_a_resource_is_named_by_text() -> None:
    with pytest.raises(ValueError, match="resource: got '1', expected a name"):
        QuotaTree({1: 1})  # type: ignore[dict-item]


def test_an_element_of_a_wrong_type_is_a_type_error() -> None:
    state = CPUState(Topology.from_cpus(range(4)))
    with pytest.raises(TypeError, match=r"^got an element of a type that is not taken here$"):
        state.add("pod", "\udcff")


def test_trees_outlive_their_forest() -> None:
    forest = Forest({"cpu": 5})
    tree = forest.tree("x")
    del forest
    tree.add("a", max={"memory": 3})
    assert tree.runtime("a") == {"memory": 0}


def in_threads(call: Callable[[int], object]) -> list[object]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(call, range(64)))


def test_a_reader_serves_several_threads(tmp_path: Path) -> None:
    pods = [f"kubepods.slice/p{index}" for index in range(20)]
    usage = "memory.usage_in_bytes"
    files = {(pod, usage): f"{index}\n" for index, pod in enumerate(pods)}
    # Fewer descriptors than files, so that threads close what others read.
    reader = Reader(hierarchy(tmp_path, Version.V2, files), kept_max=5)
    for table in in_threads(lambda _: reader.read(pods, [usage])[usage]):
        assert table["value"].tolist() == list(range(len(pods)))


def test_hints_and_merges_run_side_by_side() -> None:
    total = {zone: {"cpu": 4000 + zone, "memory": 1 << 30} for zone in range(8)}

    def decide(requested: int) -> tuple[int | None, bool]:
        request = {"cpu": 1 + requested * 500, "memory": 1 << 20}
        hints = numa.generate_hints(total, total, request, numa.TopologyPolicy.RESTRICTED)
        best = numa.merge(numa.Zones(total), hints.values())
        return best.affinity, best.preferred

    assert in_threads(decide) == [decide(requested) for requested in range(64)]


def test_replays_on_tables_of_their_own_run_side_by_side() -> None:
    def replayed(_: int) -> list[int]:
        table, fragmentation = cluster()
        replay = Replay(Placer(table, "fgd", fragmentation=fragmentation), fragmentation)
        replay.run(np.zeros(200, np.uint32))
        return replay.finish().used_milli.tolist()

    first, *others = in_threads(replayed)
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("call", "argument", "message"),
    [
        (CPUSet, [1, 2], "CPUSet: got [1, 2], expected no argument; CPUSet.parse reads a text,"
         " CPUSet.from_ids numbers"),
        (Quantity, "5", "Quantity: got '5', expected no argument; Quantity.parse reads one"),
    ],
)  # fmt: skip
def test_an_argument_of_what_takes_none_is_not_left_out(
    call: Callable[..., object], argument: object, message: str
) -> None:
    """They were the empty set and zero, whatever was handed to them."""
    with pytest.raises(TypeError) as refused:
        call(argument)
    assert str(refused.value) == message
