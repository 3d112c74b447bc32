# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import gzip
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base import rng
from koord.base.errors import KoordError
from koord.kernels.devices import PodShape
from koord.kernels.placement import ReplayRows
from koord.simulator.openb import result_tables
from koord.simulator.openb.replay import Experiment
from koord.simulator.openb.trace import TraceNode, TracePod, read_nodes, read_pods
from koord.simulator.openb.workload import STREAM, TraceWorkload, read_order, sample
from tests.models import openb as model
from tests.outcomes import refusal

OPENB = Path(__file__).resolve().parents[3] / "examples" / "openb"
NODE_HEADER = "sn,cpu_milli,memory_mib,gpu,model"
POD_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"

NODES = [TraceNode(f"n{index}", 8000, 64, 2, "T4") for index in range(3)]
PODS = [
    TracePod("p0", 1, PodShape(1000)),
    TracePod("p1", 1, PodShape(1000, 300, 1)),
    TracePod("p2", 1, PodShape(1000, 1000, 2)),
]


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_trace_is_as_described() -> None:
    nodes = read_nodes(OPENB / "openb_node_list_gpu_node.csv")
    pods = read_pods(OPENB / "openb_pod_list_default.csv")
    assert (len(nodes), sum(node.gpus for node in nodes)) == (1213, 6212)
    assert sum(node.cpu_milli for node in nodes) == 107_018_000
    assert (len(pods), len({pod.shape for pod in pods})) == (8152, 91)
    assert sum(pod.gpu_total_milli for pod in pods) == 6_086_800
    typical = Experiment.of(nodes, pods).fragmentation.typical.frequencies
    assert len(typical) == 35
    assert next(iter(typical)) == PodShape(3152, 810, 1)
    assert sum(typical.values()) == pytest.approx(1)


def test_rows_are_normalised(tmp_path: Path) -> None:
    path = written(
        tmp_path / "pods.csv",
        POD_HEADER + ",qos",
        "a,1000,5,0,700,T4,LS",
        "b,1000,5,1,1500,,BE",
        "c,0,5,2,1000,T4|P100,BE",
    )
    assert [pod.shape for pod in read_pods(path)] == [
        PodShape(1000),
        PodShape(1000, 1000, 1),
        PodShape(0, 1000, 2, "T4|P100"),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], ":1: header: got '', expected a column sn"),
        (["sn,cpu_milli,gpu,model"], "expected a column memory_mib"),
        ([NODE_HEADER, "a,x,1,1,T4"], ":2: cpu_milli: got 'x', expected an integer from 0 to"),
        ([NODE_HEADER, "a,-1,1,1,T4"], ":2: cpu_milli: got '-1'"),
        ([NODE_HEADER, "a,1_0,1,1,T4"], ":2: cpu_milli: got '1_0'"),
        ([NODE_HEADER, "a,1,1,65,T4"], ":2: gpu: got '65', expected an integer from 0 to 64"),
        ([NODE_HEADER, "a,1,1,1,T4", "a,1,1,1,T4"], ":3: sn: got 'a', expected a name that no"),
        ([NODE_HEADER, "a,1,1"], ":2: got '3 columns', expected 5 columns"),
        ([NODE_HEADER, "a,1,1,1,T4,9"], ":2: got '"),
        ([NODE_HEADER, "a,1,1,0,"], "gpu: got 0, expected a node with GPUs"),
        ([NODE_HEADER, '"a,1,1,1,T4'], "expected a CSV row"),
    ],
)
def test_bad_node_rows_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    path = written(tmp_path / "nodes.csv", *lines)
    with pytest.raises(KoordError) as caught:
        read_nodes(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,1,1,1,0,", ":2: gpu_milli: got '0', expected an integer from 1"),
        (",1,1,1,1,", ":2: name: got ''"),
        ("a,1,1,0,0,", "num_gpu: got 0, expected a pod with GPUs"),
    ],
)
def test_bad_pod_rows_are_named(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(KoordError) as caught:
        read_pods(written(tmp_path / "pods.csv", POD_HEADER, row))
    assert message in str(caught.value)


cells = st.sampled_from(["a", "1", "", "-1", "9" * 30, "T4", '"', "\x00", "é", "1,1", "\r"])
texts = st.lists(st.lists(cells, max_size=7).map(",".join), max_size=4).map("\n".join)


READERS = {
    "nodes": (lambda path: read_nodes(path), NODE_HEADER.encode()),
    "pods": (lambda path: read_pods(path), POD_HEADER.encode()),
    "order": (lambda path: read_order(path, NODES, PODS), b"n0\nn1\nn2\n"),
}


@given(
    st.one_of(st.binary(max_size=60), texts.map(str.encode)),
    st.sampled_from(sorted(READERS)),
    st.sampled_from(["bare", "after its head", "gzipped", "cut gzip"]),
)
def test_readers_never_fail_otherwise(tmp_path_factory, data: bytes, kind: str, form: str) -> None:
    read, head = READERS[kind]
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    if form == "after its head":
        data = head + b"\n" + data
    if "gzip" in form:
        data = gzip.compress(data)[: -1 if "cut" in form else None]
    path.write_bytes(data)
    refusal(read, path)


@pytest.mark.parametrize("compressed", [True, False])
def test_an_order_file_gives_ranks_and_arrivals(tmp_path: Path, compressed: bool) -> None:
    data = b"n2\nn0\nn1\n\np1\np0\np1\n"
    path = tmp_path / "order.txt"
    path.write_bytes(gzip.compress(data) if compressed else data)
    workload = read_order(path, NODES, PODS)
    assert workload == TraceWorkload([1, 0, 1], [1, 2, 0], order="order.txt")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["n0", "n1"], "expected an empty line after the nodes"),
        (["n0", "n9", "", "p0"], ":2: node: got 'n9', expected a node of the list"),
        (["n0", "n0", "", "p0"], ":2: node: got 'n0', expected each node once"),
        (["n0", "n1", "", "p0"], "nodes: got 'no n2', expected every node of the list"),
        (["n0", "n1", "n2", "", "p0", "p9"], ":6: pod: got 'p9', expected a pod of the list"),
        (["n0", "n1", "n2", ""], "expected at least one arrival"),
    ],
)
def test_bad_orders_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(KoordError) as caught:
        read_order(written(tmp_path / "order.txt", *lines), NODES, PODS)
    assert message in str(caught.value)


pod_lists = st.lists(
    st.tuples(st.sampled_from([0, 1, 300, 1000]), st.integers(1, 2)), min_size=1, max_size=6
).filter(lambda pods: any(milli for milli, _ in pods))


@given(pod_lists, st.floats(0.01, 3), st.integers(0, 5))
def test_sampling_reaches_the_load_and_no_more(
    requests: list[tuple[int, int]], load: float, seed: int
) -> None:
    pods = [
        TracePod(f"p{index}", 1, PodShape(1, milli, gpus if milli else 0))
        for index, (milli, gpus) in enumerate(requests)
    ]
    workload = sample(NODES, pods, load, seed)
    assert workload == sample(NODES, pods, load, seed)
    assert sorted(workload.ranks) == [0, 1, 2]
    target = load * 6000
    requested = sum(pod.gpu_total_milli for pod in pods)
    if requested < target:
        originals, copies = workload.arrivals[: len(pods)], workload.arrivals[len(pods) :]
        assert sorted(originals) == list(range(len(pods)))
        # The draws themselves, replayed against the rule.
        stream = rng.stream(seed, STREAM, "tuning")
        draws = [stream.randrange(len(pods)) for _ in range(len(copies) + 1)]
        shapes = [(pod.shape.gpu_milli, pod.shape.gpu_count) for pod in pods]
        assert copies == model.tuned(shapes, target, draws)
    else:
        kept = workload.arrivals
        assert len(set(kept)) == len(kept)
        assert sum(pods[index].gpu_total_milli for index in kept) <= target


def test_seeds_differ() -> None:
    pods = [TracePod(f"p{index}", 1, PodShape(1, 100, 1)) for index in range(30)]
    assert sample(NODES, pods, 1, 1).arrivals != sample(NODES, pods, 1, 2).arrivals


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), max_size=40))
def test_bins_are_the_models(steps: list[tuple[int, int]]) -> None:
    gpus = 7
    arrived = np.cumsum([step for step, _ in steps], dtype=np.int64)
    used = np.array([milli for _, milli in steps], np.int64)
    nothing = np.zeros(len(steps))
    rows = ReplayRows(used, arrived, used * 0.5, nothing, np.zeros(len(steps), np.int32))
    values = [Fraction(int(milli) * 100, gpus * 1000) for milli in used]
    want = model.table(arrived.tolist(), values, gpus)
    got = result_tables.allocation(rows, gpus)
    for cell, value in want.items():
        # Two roundings to two decimals lie between.
        assert got[cell] == (None if value is None else pytest.approx(float(value), abs=0.0101))


def test_a_run_says_what_became_of_the_nodes() -> None:
    experiment = Experiment.of(NODES, PODS)
    run = experiment.run("bestfit", TraceWorkload([2, 2, 2, 2, 0], [0, 1, 2], seed=5))
    assert (run.pods_submitted, run.pods_failed) == (5, 1)
    assert run.nodes.names == ["n0", "n1", "n2"]
    assert run.nodes.gpu_free_milli.tolist() == [0, 0, 0]
    assert run.nodes.gpu_milli.tolist() == [2000, 2000, 2000]
    assert int(run.nodes.cpu_free_milli.sum()) == 20000
    assert run.cpu_allocated_percent == pytest.approx(100 * 4 / 24, abs=0.01)
    assert run.gpu_allocated_percent[100] == 100
    document = run.as_json()
    assert list(document)[:4] == ["policy", "seed", "pods_submitted", "pods_failed"]


def test_published_files_are_whole() -> None:
    with (OPENB / "published" / "alloc.csv").open(encoding="ascii") as file:
        lists = {row["workload"] for row in csv.DictReader(file)}
    assert len(lists) == 3
