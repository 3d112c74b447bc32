# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import itertools
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import cgroup
from koord.kernels.cgroup import (
    CATALOGUE,
    Directories,
    Hierarchy,
    Outcome,
    Reader,
    Write,
    Writer,
)
from koord.kernels.cgroup_parse import Version
from tests.kernels.cgroup_tree import PODS, hierarchy, path
from tests.models import cgroup as model

V1, V2 = Version.V1, Version.V2
INT64_MAX = 2**63 - 1
IO_MAX = "8:16 rbps=max wbps=max riops=7 wiops=max\n8:0 rbps=5 wbps=max riops=max wiops=max\n"
IO_QOS = "8:0 enable=1 ctrl=user rpct=95.00 rlat=9 wpct=95.50 wlat=9 min=50.00 max=150.00\n"


def test_the_catalogue_has_every_resource_once() -> None:
    assert len(CATALOGUE) == 51
    assert CATALOGUE["cpu.shares"].v2 == ("", "cpu.weight", "always", (1, 10000), "")
    assert CATALOGUE["memory.pressure"].v1 == ("cpuacct", "memory.pressure", "kubepods", None, "")
    limit = CATALOGUE["blkio.throttle.read_bps_device"]
    assert limit.v2 == ("", "io.max", "file", (0, INT64_MAX), "rbps")
    assert [key for key, row in CATALOGUE.items() if row.v1 is None] == [
        "cpuset.cpus.effective", "memory.pagecache_limit.enable", "memory.pagecache_limit.sync",
        "memory.pagecache_limit.size",
    ]  # fmt: skip


# Paths that must not lead anywhere.


@pytest.mark.parametrize("bad", ["", "/etc/passwd", "..", "../x", "a/../../x", "cpu/..", "a\0b"])
def test_a_path_out_of_the_root_is_refused(tmp_path: Path, bad: str) -> None:
    tree = hierarchy(tmp_path / "root", V2, {})
    (tmp_path / "x").write_text("secret")
    with pytest.raises(ValueError, match=r"path: got .* expected a relative path without '\.\.'"):
        tree.read_text(bad)


def test_a_symbolic_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    tree = hierarchy(tmp_path, V2, {("pod", "cpu.shares"): "39\n"})
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "within").symlink_to("pod")
    (tmp_path / "pod/cpu.stat").symlink_to("cpu.weight")
    for link in ("out/passwd", "within/cpu.weight", "pod/cpu.stat", "within"):
        with pytest.raises(OSError, match="no symbolic link in the path") as raised:
            tree.read_text(link)
        assert raised.value.errno == errno.ELOOP
    tables = Reader(tree).read(["pod", "within", "out", "../pod"], ["cpu.shares", "cpu.stat"])
    assert tables["cpu.shares"].error.tolist() == [0, errno.ELOOP, errno.ELOOP, errno.EINVAL]
    assert tables["cpu.stat"].error.tolist()[0] == errno.ELOOP
    (written,) = Writer(tree).write([Write("cpu.shares", "within", 2)], 0)
    assert (written.outcome, written.errno) == (Outcome.FAILED, errno.ELOOP)
    assert (tmp_path / "pod/cpu.weight").read_text() == "39\n"


def test_a_v1_hierarchy_mounted_under_two_names_is_found_by_both(tmp_path: Path) -> None:
    (tmp_path / "cpu,cpuacct/pod").mkdir(parents=True)
    (tmp_path / "cpu,cpuacct/pod/cpuacct.usage").write_text("7\n")
    (tmp_path / "cpuacct").symlink_to("cpu,cpuacct")
    (tmp_path / "memory").symlink_to("/etc")
    tables = Reader(Hierarchy(tmp_path, V1)).read(["pod"], ["cpuacct.usage", "memory.stat"])
    assert tables["cpuacct.usage"]["value"].tolist() == [7]
    assert tables["memory.stat"].error.tolist() == [errno.ELOOP]


# Reading.


def test_a_batch_has_a_column_a_value_and_an_error_a_row(tmp_path: Path) -> None:
    stat = "nr_periods 1\nnr_throttled 2\nthrottled_usec 3\nusage_usec 4\n"
    some = "some avg10=0.5 avg60=0 avg300=0 total=9\n"
    tree = hierarchy(
        tmp_path,
        V2,
        {
            ("a", "cpu.stat"): stat,
            ("a", "cpu.shares"): "39\n",
            ("a", "cpu.cfs_quota_us"): "max 5\n",
            ("a", "cpuset.cpus.effective"): "0-3\n",
            ("a", "cpu.pressure"): some,
            ("bad", "cpu.stat"): "nr_periods x",
            ("bad", "cpu.shares"): "",
            ("bad", "cpu.cfs_quota_us"): "1",
        },
    )
    resources = ["cpu.stat", "cpuacct.usage", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us",
                 "cpuset.cpus", "cpu.pressure", "memory.idle_page_stats"]  # fmt: skip
    tables = Reader(tree).read(["a", "bad", "gone"], resources)
    assert list(tables) == resources
    assert tables["cpu.stat"]["throttled_ns"].tolist() == [3000, 0, 0]
    assert tables["cpu.stat"].error.tolist() == [0, errno.EBADMSG, errno.ENOENT]
    assert tables["cpuacct.usage"]["value"].tolist() == [4000, 0, 0]
    assert tables["cpu.shares"]["value"][0] == 998
    assert (tables["cpu.cfs_quota_us"]["value"][0], tables["cpu.cfs_period_us"]["value"][0]) == (
        -1,
        5,
    )
    assert tables["cpuset.cpus"].texts == ["0-3", "", ""]
    assert tables["cpu.pressure"]["some_avg10"][0] == 0.5
    assert tables["cpu.pressure"]["some_total_us"][0] == 9
    assert tables["memory.idle_page_stats"].error.tolist() == [errno.EOPNOTSUPP] * 3
    assert "nr_periods: got 'x'" in tables["cpu.stat"].messages[1]
    with pytest.raises(KeyError, match="resource: got 'nope'"):
        Reader(tree).read(["a"], ["nope"])


def test_kept_descriptors_are_bounded_fresh_and_survive_a_removed_cgroup(tmp_path: Path) -> None:
    names = [f"pod{i}" for i in range(4)]
    tree = hierarchy(tmp_path, V2, {(name, "cpu.shares"): "39" for name in names})
    reader = Reader(tree, kept_max=3)
    reader.read(names, ["cpu.shares"])
    assert reader.kept == 3
    (tmp_path / "pod3/cpu.weight").write_text("100")
    assert reader.read(["pod3"], ["cpu.shares"])["cpu.shares"]["value"].tolist() == [2597]
    reader.close_kept()
    assert reader.kept == 0
    shutil.rmtree(tmp_path / "pod3")
    table = reader.read(["pod3", "pod0"], ["cpu.shares"])["cpu.shares"]
    assert table.error.tolist() == [errno.ENOENT, 0]


@given(
    kept_max=st.integers(0, 9),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 3), st.integers(2, 9000)),
            st.tuples(st.just("read"), st.integers(0, 2), st.integers(0, 2)),
            st.just(("close", 0, 0)),
        ),
        max_size=30,
    ),
)
def test_remembered_descriptors_are_never_another_files(
    tmp_path_factory: pytest.TempPathFactory, kept_max: int, steps: list[tuple[str, int, int]]
) -> None:
    """Whatever is dropped for want of room or closed in between: a row says what its file says."""
    pods, keys = [f"pod{i}" for i in range(4)], ["memory.usage_in_bytes", "cpu.cfs_burst_us"]
    values = {(pod, key): str(at) for at, (pod, key) in enumerate(itertools.product(pods, keys))}
    root = tmp_path_factory.mktemp("tree")
    reader = Reader(hierarchy(root, V2, values), kept_max)
    lists = [pods, pods[::-1], ["gone", *pods[:2]]]
    remembered = [Directories(each) for each in lists]
    for step, which, value in steps:
        if step == "write":
            pod, key = pods[which], keys[value % 2]
            values[pod, key] = str(value)
            path(root, V2, key, pod).write_text(str(value))
        elif step == "close":
            reader.close_kept()
        else:
            asked = [keys[:1], keys[1:], keys][value]
            for key, table in reader.read(remembered[which], asked).items():
                said = [values.get((directory, key)) for directory in lists[which]]
                assert table["value"].tolist() == [int(text or 0) for text in said]
                assert table.error.tolist() == [0 if text else errno.ENOENT for text in said]
        assert reader.kept <= kept_max


def test_a_long_file_is_read_whole_and_an_endless_one_is_not(tmp_path: Path) -> None:
    ids = "".join(f"{i}\n" for i in range(20_000))
    tree = hierarchy(tmp_path, V2, {("a", "tasks"): ids, ("b", "tasks"): ""})
    with (tmp_path / "b/cgroup.threads").open("r+b") as file:
        file.truncate(17 << 20)
    table = Reader(tree).read(["a", "b"], ["tasks"])["tasks"]
    assert table.texts[0] + "\n" == ids
    assert table.error.tolist() == [0, errno.EFBIG]


def test_many_threads_share_a_reader(tmp_path: Path) -> None:
    names = [f"pod{i}" for i in range(20)]
    tree = hierarchy(tmp_path, V2, {(n, "cpu.shares"): f"{i + 1}" for i, n in enumerate(names)})
    reader = Reader(tree, kept_max=7)
    want = reader.read(names, ["cpu.shares"])["cpu.shares"]["value"].tolist()
    got: list[list[int]] = []

    def work() -> None:
        reads = (reader.read(names, ["cpu.shares"])["cpu.shares"] for _ in range(20))
        got.extend(table["value"].tolist() for table in reads)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want] * 80


# What values mean.


@pytest.mark.parametrize(
    ("resource", "version", "value", "text"),
    [
        ("cpu.cfs_quota_us", V1, -1, "-1"),
        ("cpu.cfs_quota_us", V2, -1, "max"),
        ("cpu.cfs_quota_us", V2, 200000, "200000"),
        ("memory.limit_in_bytes", V2, -1, "max"),
        ("memory.limit_in_bytes", V1, -1, "-1"),
        ("cpu.shares", V1, 1024, "1024"),
        ("cpu.shares", V2, 1024, "39"),
        ("memory.min", V2, "max", "max"),
        ("cpu.bvt_warp_ns", V2, -1, "-1"),
        ("cpuset.cpus", V1, "", ""),
        ("net_cls.classid", V2, "0x100001", "0x100001"),
        ("blkio.throttle.read_bps_device", V1, "253:16 0", "253:16 0"),
        ("blkio.cost.qos", V1, "253:16 enable=0", "253:16 enable=0"),
        (
            "blkio.cost.qos",
            V1,
            "253:16 enable=1 ctrl=user rpct=95 rlat=1 wpct=95 wlat=1",
            "253:16 enable=1 ctrl=user rpct=95 rlat=1 wpct=95 wlat=1",
        ),
        ("blkio.throttle.read_bps_device", V2, "253:16 0", "253:16 rbps=max"),
        ("blkio.throttle.write_bps_device", V2, "253:16 4294967295", "253:16 wbps=4294967295"),
        ("blkio.throttle.read_iops_device", V2, "253:16 7", "253:16 riops=7"),
        ("blkio.throttle.write_iops_device", V2, "253:16 4294967295", "253:16 wiops=max"),
        ("blkio.cost.weight", V2, "253:16 60", "253:16 60"),
        ("blkio.cost.weight", V2, "253:16 10000", "253:16 10000"),
        ("blkio.cost.weight", V2, "253:16 default", "253:16 default"),
        ("blkio.cost.model", V2, "253:16 ctrl=auto", "253:16 ctrl=auto"),
    ],
)
def test_the_text_of_a_value(resource: str, version: Version, value: str | int, text: str) -> None:
    assert cgroup.file_text(resource, version, value) == text


@pytest.mark.parametrize(
    ("resource", "version", "value"),
    [
        ("cpu.shares", V1, 1),
        ("cpu.shares", V2, 262145),
        ("cpu.bvt_warp_ns", V1, 3),
        ("cpu.idle", V1, ""),
        ("memory.min", V2, -1),
        ("cpu.cfs_quota_us", V1, "x"),
        ("cpuset.cpus", V1, "0-5000"),
        ("cpu.stat", V1, "1"),
        ("net_cls.classid", V1, "0xa"),
        ("net_cls.classid", V1, "0x123456789"),
        ("net_cls.classid", V1, -1),
        ("blkio.cost.weight", V1, "253:16 101"),
        ("blkio.cost.weight", V1, "253:16 default"),
        ("blkio.cost.weight", V2, "253:16 10001"),
        ("blkio.cost.weight", V2, "253:16 0"),
        ("blkio.throttle.read_bps_device", V2, "253:16"),
        ("blkio.throttle.read_bps_device", V2, "253:16 -1"),
        ("blkio.throttle.read_bps_device", V2, "253:16 1 2"),
        ("blkio.throttle.read_iops_device", V1, "253 5"),
        (
            "blkio.cost.model",
            V1,
            "1:2 ctrl=user rbps=0 rseqiops=1 rrandiops=1 wbps=1 wseqiops=1 wrandiops=1",
        ),
        ("memory.oom.group", V1, 2),
        ("cpu.cfs_burst_us", V1, 100000001),
        ("tasks", V1, "1\n2"),
    ],
)
def test_a_value_that_is_not_valid_is_refused(
    resource: str, version: Version, value: str | int
) -> None:
    with pytest.raises(ValueError, match=r"got .* expected"):
        cgroup.file_text(resource, version, value)


@pytest.mark.parametrize(
    ("resource", "version", "text", "current", "same"),
    [
        ("cpu.cfs_quota_us", V2, "200000", "200000 100000\n", True),
        ("cpu.cfs_quota_us", V2, "max", "max 100000\n", True),
        ("cpu.cfs_quota_us", V2, "100000", "200000 100000\n", False),
        ("cpu.cfs_period_us", V2, "100000", "200000 100000\n", True),
        ("memory.limit_in_bytes", V1, "-1", "9223372036854771712\n", True),
        ("memory.min", V2, str(INT64_MAX), "max\n", True),
        ("cpuset.cpus", V1, "0,1,2", "0-2\n", True), ("cpuset.cpus", V1, "0-1", "0-2\n", False),
        ("net_cls.classid", V1, "0x100001", "1048577\n", True),
        ("cgroup.procs", V1, "7", "1\n7\n", True), ("cgroup.procs", V1, "7", "17\n", False),
        ("blkio.throttle.read_bps_device", V1, "253:16 0", "253:1 5\n", True),
        ("blkio.throttle.read_bps_device", V1, "253:1 0", "253:1 5\n", False),
        ("blkio.throttle.read_bps_device", V1, "253:1 5", "8:0 1\n253:1 5\n", True),
        ("blkio.throttle.read_bps_device", V1, "253:1 5", "253:1 50\n", False),
        ("blkio.throttle.read_bps_device", V2, "8:0 rbps=5", IO_MAX, True),
        ("blkio.throttle.read_bps_device", V2, "8:0 rbps=max", IO_MAX, False),
        ("blkio.throttle.write_iops_device", V2, "8:0 wiops=max", IO_MAX, True),
        ("blkio.throttle.write_iops_device", V2, "8:0 wiops=9", IO_MAX, False),
        ("blkio.throttle.read_bps_device", V2, "8:1 rbps=max", IO_MAX, True),
        ("blkio.throttle.read_bps_device", V2, "8:1 rbps=5", IO_MAX, False),
        ("blkio.cost.weight", V2, "8:0 100", "default 100\n", True),
        ("blkio.cost.weight", V2, "8:0 100", "default 50\n", False),
        ("blkio.cost.weight", V2, "8:0 100", "default 100\n8:0 60\n", False),
        ("blkio.cost.weight", V2, "8:0 60", "default 100\n8:0 60\n", True),
        ("blkio.cost.weight", V2, "8:0 default", "default 100\n8:0 100\n", False),
        ("blkio.cost.weight", V2, "8:0 default", "default 100\n8:16 60\n", True),
        ("blkio.cost.qos", V2, "8:0 enable=1 ctrl=user rpct=95 rlat=9 wpct=95.5 wlat=9", IO_QOS,
         True),
        ("blkio.cost.qos", V2, "8:0 enable=1 ctrl=user rpct=9 rlat=9 wpct=95.5 wlat=9", IO_QOS,
         False),
        ("blkio.cost.qos", V2, "8:16 enable=0 ctrl=auto", IO_QOS, True),
        ("blkio.cost.qos", V2, "8:0 enable=0 ctrl=auto", IO_QOS, False),
        ("blkio.cost.qos", V2, "8:16 enable=1 ctrl=user rpct=0 rlat=0 wpct=0 wlat=0", "", False),
        ("blkio.cost.model", V2, "8:0 ctrl=auto", "8:0 ctrl=auto model=linear rbps=1\n", True),
        ("blkio.cost.model", V2, "8:0 ctrl=user rbps=10", "8:0 ctrl=user rbps=1\n", False),
        ("cpu.shares", V2, "39", "garbage", False),
    ],
)  # fmt: skip
def test_texts_that_say_the_same(
    resource: str, version: Version, text: str, current: str, same: bool
) -> None:
    assert cgroup.says_same(resource, version, text, current) is same


@pytest.mark.parametrize(
    ("resource", "version", "text", "current", "between"),
    [
        ("cpu.cfs_quota_us", V1, "-1", "10000\n", "-1"),
        ("cpu.cfs_quota_us", V1, "10000", "-1\n", None),
        ("cpu.cfs_quota_us", V2, "200000", "max 100000\n", None),
        ("cpu.cfs_quota_us", V2, "max", "200000 100000\n", "max"),
        ("memory.min", V1, "1048576", "2097152\n", None),
        ("memory.high", V2, "5", "4\n", "5"),
        ("memory.high", V2, "5", "max\n", None),
        ("cpu.cfs_burst_us", V1, "5", "9\n", "5"),
        ("cpu.cfs_burst_us", V1, "9", "5\n", None),
        ("cpuset.cpus", V1, "2-3", "0-1\n", "0-3"),
        ("cpuset.cpus", V1, "0", "0-1\n", None),
        ("cpu.shares", V1, "5", "2\n", None),
    ],
)
def test_what_comes_between(
    resource: str, version: Version, text: str, current: str, between: str | None
) -> None:
    assert cgroup.loosened(resource, version, text, current) == between


ids = st.sets(st.integers(0, 9), max_size=5).map(lambda found: ",".join(map(str, sorted(found))))


@given(ids, ids)
def test_a_cpuset_is_never_narrowed_first(new: str, old: str) -> None:
    between = cgroup.loosened("cpuset.cpus", V1, new, old)
    union = model.cpu_set(new) | model.cpu_set(old)
    assert (model.cpu_set(old) if between is None else model.cpu_set(between)) == union
    assert cgroup.says_same("cpuset.cpus", V1, new, old) == (
        model.cpu_set(new) == model.cpu_set(old)
    )


# Writing.


def outcomes(results: list[cgroup.Written]) -> list[str]:
    return [result.outcome.name for result in results]


def test_a_value_is_written_once_and_checked_again_after_a_while(tmp_path: Path) -> None:
    tree = hierarchy(tmp_path, V2, {("p", "cpu.cfs_quota_us"): "max 100000\n"})
    file = path(tmp_path, V2, "cpu.cfs_quota_us", "p")
    writer = Writer(tree, force_after_seconds=60)
    request = [Write("cpu.cfs_quota_us", "p", 200000)]
    assert outcomes(writer.write(request, 0)) == ["WRITTEN"]
    assert file.read_text() == "200000"
    file.write_text("5 5")
    assert outcomes(writer.write(request, 60)) == ["UNCHANGED"]
    assert outcomes(writer.write(request, 60.5)) == ["WRITTEN"]
    # The kernel shows the period too, which says the same.
    file.write_text("200000 100000\n")
    assert outcomes(writer.write(request, 121)) == ["UNCHANGED"]
    assert file.read_text() == "200000 100000\n"
    file.write_text("7 7")
    writer.forget("p")
    assert outcomes(writer.write(request, 122)) == ["WRITTEN"]


def test_an_empty_cpuset_is_written_as_an_empty_line(tmp_path: Path) -> None:
    tree = hierarchy(tmp_path, V2, {("p", "cpuset.cpus"): "0-1\n"})
    assert outcomes(Writer(tree).write([Write("cpuset.cpus", "p", "")], 0)) == ["WRITTEN"]
    # No bytes at all would be no write(2) that the kernel sees.
    assert path(tmp_path, V2, "cpuset.cpus", "p").read_text() == "\n"
    assert outcomes(Writer(tree).write([Write("cpuset.cpus", "p", "")], 0)) == ["UNCHANGED"]


def test_quota_and_period_of_v2_are_two_fields_of_one_file(tmp_path: Path) -> None:
    tree = hierarchy(tmp_path, V2, {("p", "cpu.cfs_quota_us"): "200000 100000\n"})
    file = path(tmp_path, V2, "cpu.cfs_quota_us", "p")
    writer = Writer(tree)
    assert outcomes(writer.write([Write("cpu.cfs_period_us", "p", 50000)], 0)) == ["WRITTEN"]
    assert file.read_text() == "200000 50000"
    both = [Write("cpu.cfs_quota_us", "p", 200000), Write("cpu.cfs_period_us", "p", 50000)]
    assert outcomes(writer.write(both, 1)) == ["UNCHANGED", "UNCHANGED"]


def test_each_item_tells_how_it_ended(tmp_path: Path) -> None:
    tree = hierarchy(tmp_path, V1, {("p", "cpu.shares"): "1024\n", ("p", "cpuset.cpus"): "0-1\n"})
    (tmp_path / "cpu/p/cpu.cfs_quota_us").mkdir()
    requests = [
        Write("cpu.shares", "p", 2048),
        Write("cpu.shares", "gone", 2),
        Write("cpu.bvt_warp_ns", "p", 2),
        Write("memory.pagecache_limit.size", "p", 2),
        Write("cpu.shares", "p", 1),
        Write("cpuset.cpus", "p", "1,0"),
        Write("cpu.cfs_quota_us", "p", 5),
        Write("cpu.shares", "/p", 5),
    ]
    results = Writer(tree).write(requests, 0)
    assert outcomes(results) == [
        "WRITTEN",
        "MISSING",
        "UNSUPPORTED",
        "UNSUPPORTED",
        "FAILED",
        "UNCHANGED",
        "FAILED",
        "FAILED",
    ]
    assert results[4].message == "cpu.shares: got '1', expected 2 to 262144"
    assert [result.errno for result in results[:2]] == [0, errno.ENOENT]
    assert results[6].errno == errno.EISDIR


def test_a_file_is_supported_once_kubepods_has_it(tmp_path: Path) -> None:
    tree = hierarchy(tmp_path, V1, {("p", "cpu.idle"): "0"})
    writer = Writer(tree)
    request = [Write("cpu.idle", "p", 1)]
    assert outcomes(writer.write(request, 0)) == ["UNSUPPORTED"]
    (tmp_path / "cpu" / PODS / "cpu.idle").write_text("0")
    assert outcomes(writer.write(request, 0)) == ["WRITTEN"]


@pytest.mark.parametrize(
    ("resource", "version", "old", "new", "after"),
    [
        ("cpu.cfs_quota_us", V1, "10000", -1, "-1"),
        ("cpu.cfs_quota_us", V1, "-1", 10000, "10000"),
        ("cpu.cfs_quota_us", V2, "max 100000", 200000, "200000"),
        ("cpu.cfs_quota_us", V2, "5 100000", -1, "max"),
        ("memory.min", V2, "2097152", 1048576, "1048576"),
        ("cpuset.cpus", V1, "0-1", "2-3", "2-3"),
        ("cpu.shares", V1, "2", 5, "5"),
    ],
)
def test_a_leveled_write_ends_at_the_value(
    tmp_path: Path, resource: str, version: Version, old: str, new: str | int, after: str
) -> None:
    tree = hierarchy(tmp_path, version, {("p", resource): old})
    writer = Writer(tree)
    assert outcomes(writer.write_leveled([[Write(resource, "p", new)]], 0)[0]) == ["WRITTEN"]
    assert path(tmp_path, version, resource, "p").read_text() == after
    assert outcomes(writer.write_leveled([[Write(resource, "p", new)]], 1)[0]) == ["UNCHANGED"]


limits = st.one_of(st.just(-1), st.integers(1, 5))


@given(st.tuples(limits, limits), st.tuples(limits, limits), st.sampled_from([V1, V2]))
def test_a_leveled_chain_as_the_model(tmp_path_factory, old, new, version) -> None:
    root = tmp_path_factory.getbasetemp() / f"chain{version}"
    names, resource = ["p", "p/c"], "cpu.cfs_quota_us"
    shown = ["max 100000" if version is V2 and value == -1 else f"{value}" for value in old]
    tree = hierarchy(
        root, version, {(n, resource): text for n, text in zip(names, shown, strict=True)}
    )
    results = Writer(tree).write_leveled(
        [[Write(resource, n, v)] for n, v in zip(names, new, strict=True)], 0
    )
    held = [model.number(path(root, version, resource, n).read_text()) for n in names]
    states = model.leveled([model.number(str(v)) for v in old], [model.number(str(v)) for v in new])
    assert held == states[-1]
    for result, before, after in zip(results, states[0], states[-1], strict=True):
        assert outcomes(result) == ["UNCHANGED" if before == after else "WRITTEN"]
    # The order that the model follows, which is the writer's, keeps parents wide enough throughout.
    if all(model.number(str(tree[0])) >= model.number(str(tree[1])) for tree in (old, new)):
        assert all(parent >= child for parent, child in states)


def test_ids_are_added_one_write_each(tmp_path: Path) -> None:
    tree = hierarchy(tmp_path, V2, {("p", "tasks"): "1\n"})
    assert tree.add_ids("p/cgroup.threads", [9, 3]) == (2, 0, 0, 0)
    assert (tmp_path / "p/cgroup.threads").read_text() == "1\n3\n9\n"
    with pytest.raises(FileNotFoundError):
        tree.add_ids("gone/cgroup.threads", [1])


@given(st.binary(max_size=30), st.sampled_from(sorted(CATALOGUE)), st.text(max_size=12))
def test_hostile_files_end_as_outcomes(
    tmp_path_factory, content: bytes, resource: str, value: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "hostile"
    version = V1 if CATALOGUE[resource].v1 else V2
    tree = hierarchy(root, version, {("p", resource): ""})
    path(root, version, resource, "p").write_bytes(content)
    for message in (
        Reader(tree).read(["p", value.replace("\0", "")], [resource])[resource].messages.values()
    ):
        assert "\n" not in message
    request = Write(resource, "p", value)
    for result in itertools.chain(
        Writer(tree).write([request], 0), *Writer(tree).write_leveled([[request]], 0)
    ):
        assert "\n" not in result.message
