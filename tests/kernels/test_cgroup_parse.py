# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import cgroup_parse as parse
from koord.kernels.cgroup_parse import Version
from tests.models import cgroup as model
from tests.outcomes import KERNEL_ERRORS, refusal

V1, V2 = Version.V1, Version.V2
INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("shares", "weight"),
    [(1000, 39), (1024, 39), (2000, 77), (50000, 1908), (2, 1), (262144, 10000)],
)
def test_shares_to_weight(shares: int, weight: int) -> None:
    assert parse.shares_to_weight(shares) == weight


@pytest.mark.parametrize(("weight", "shares"), [(39, 998), (1, 2), (10000, 262144)])
def test_weight_to_shares(weight: int, shares: int) -> None:
    assert parse.weight_to_shares(weight) == shares


@pytest.mark.parametrize(
    ("milli", "quota"), [(0, -1), (-5, -1), (1, 1000), (9, 1000), (10, 1000), (1500, 150000)]
)
def test_milli_cpu_to_quota(milli: int, quota: int) -> None:
    assert parse.milli_cpu_to_quota_us(milli) == quota


@given(st.integers(2, 262144), st.integers(1, 10000), st.integers(-(2**63), INT64_MAX))
def test_conversions_as_the_model(shares: int, weight: int, milli: int) -> None:
    assert parse.shares_to_weight(shares) == model.shares_to_weight(shares)
    assert parse.weight_to_shares(weight) == model.weight_to_shares(weight)
    assert parse.milli_cpu_to_shares(milli) == model.milli_cpu_to_shares(milli)
    assert parse.milli_cpu_to_quota_us(milli) == model.milli_cpu_to_quota_us(milli)


@pytest.mark.parametrize("bad", [1, 262145, -1])
def test_shares_out_of_range(bad: int) -> None:
    with pytest.raises(ValueError, match=rf"cpu\.shares: got '{bad}', expected 2 to 262144"):
        parse.shares_to_weight(bad)
    with pytest.raises(ValueError, match=r"cpu\.weight: got"):
        parse.weight_to_shares(10001 if bad > 0 else 0)


_WORDS = st.sampled_from(
    [
        "nr_periods",
        "nr_throttled",
        "throttled_time",
        "throttled_usec",
        "7",
        "-3",
        "x",
        "\n",
        "\n",
        " ",
        "\t",
    ]
)


@given(st.lists(_WORDS, max_size=14), st.sampled_from([V1, V2]))
def test_cpu_stat_as_the_model(words: list[str], version: Version) -> None:
    text = " ".join(words)
    assert parse.parse_key_values(text) == model.key_values(text)
    want = model.cpu_stat(text, version)
    if want is None:
        with pytest.raises(ValueError, match=r"cpu\.stat"):
            parse.parse_cpu_stat(text, version)
    else:
        assert parse.parse_cpu_stat(text, version) == want


def test_cpu_stat_and_usage() -> None:
    before = parse.parse_cpu_stat("nr_periods 1\nnr_throttled 2\nthrottled_time 3\n", V1)
    after = parse.parse_cpu_stat("nr_periods 11\nnr_throttled 4\nthrottled_usec 3", V2)
    assert (before, after) == ((1, 2, 3), (11, 4, 3000))
    assert after.throttled_ratio(before) == 0.2
    assert before.throttled_ratio(after) == before.throttled_ratio(before) == 0
    assert parse.parse_cpu_usage_ns("123\n", V1) == 123
    assert parse.parse_cpu_usage_ns("usage_usec 123\nuser_usec 1\n", V2) == 123000
    with pytest.raises(ValueError, match="usage_usec"):
        parse.parse_cpu_usage_ns("usage_usec 9223372036854775807", V2)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("4096\n", 4096),
        ("max", -1),
        ("9223372036854771712", -1),
        ("9223372036854771711", 9223372036854771711),
    ],
)
def test_memory_limits(text: str, limit: int) -> None:
    assert parse.parse_memory_limit(text) == limit


def test_cpu_max() -> None:
    assert parse.parse_cpu_max("max 100000\n") == (-1, 100000)
    assert parse.parse_cpu_max("200000 50000") == (200000, 50000)
    for bad in ("max", "", "1 2 3", "x 1", "1 max"):
        with pytest.raises(ValueError, match=r"cpu\.max"):
            parse.parse_cpu_max(bad)


def test_max_in_plain_numbers() -> None:
    assert parse.parse_int64("f", "max") == -1
    assert parse.parse_int64("f", "max", INT64_MAX) == INT64_MAX
    with pytest.raises(ValueError, match="f: got '9223372036854775808', expected an int64"):
        parse.parse_int64("f", "9223372036854775808")


MEMORY_KEYS = ["inactive_file", "active_file", "inactive_anon", "active_anon", "unevictable"]


@pytest.mark.parametrize(
    ("version", "first", "prefix"),
    [(V1, ["total_cache", "total_rss"], "total_"), (V2, ["file", "anon"], "")],
)
def test_memory_stat(version: Version, first: list[str], prefix: str) -> None:
    keys = first + [prefix + key for key in MEMORY_KEYS]
    text = "".join(f"{key} {10**i}\n" for i, key in enumerate(keys))
    stat = parse.parse_memory_stat(text, version)
    assert stat == tuple(10**i for i in range(7))
    assert (stat.usage, stat.usage_with_page_cache) == (1110000, 1111100)
    for key in keys:
        with pytest.raises(ValueError, match=rf"memory\.stat {key}: got"):
            parse.parse_memory_stat(("\n" + text).replace(f"\n{key} ", "\nother "), version)


def test_numa_stat() -> None:
    v1 = "total=5 N0=2 N1=3\nfile=1 N0=1 N1=0\n"
    v2 = "anon N0=12345 N1=67890\nfile N0=10000 N1=20000\nslab N0=1 N1=1\n"
    assert parse.parse_numa_stat(v1, V1) == {0: 2, 1: 3}
    assert parse.parse_numa_stat(v2, V2) == {0: 5, 1: 20}
    for bad in (
        "",
        "file N0=1\nanon N0=1",
        "anon N0=1\nfile N0=1 N1=1",
        "anon N1=1\nfile N1=1",
        "anon N0=x\nfile N0=1",
    ):
        with pytest.raises(ValueError, match="numa_stat"):
            parse.parse_numa_stat(bad, V2)


SOME = "some avg10=0.12 avg60=1.00 avg300=99.99 total=123\n"
FULL = "full avg10=0.00 avg60=0.50 avg300=0.00 total=4\n"


def test_pressure() -> None:
    both = parse.parse_pressure(SOME + FULL)
    assert both == ((0.12, 1.0, 99.99, 123), (0.0, 0.5, 0.0, 4), True)
    assert parse.parse_pressure(SOME) == (both.some, (0, 0, 0, 0), False)
    for bad in (
        "",
        FULL,
        "any" + SOME[4:],
        SOME.replace("total", "sum"),
        SOME.replace("0.12", "nan"),
        SOME.replace("123", "-"),
        SOME.replace("123", "-1"),
        SOME[:20],
    ):
        with pytest.raises(ValueError, match="pressure: got"):
            parse.parse_pressure(bad)


def idle_text(value: int = 1) -> str:
    rows = "csei dsei cfei dfei csui dsui cfui dfui csea dsea cfea dfea csua dsua cfua dfua slab"
    head = ["# version: 1.0", "# page_scans: 24", "# slab_scans: 24", "# scan_period_in_seconds: 5",
            "# use_hierarchy: 1", "# buckets: 1,2,5,15,30,60,120,240"]  # fmt: skip
    return "\n".join(head + ["#"] * 8 + [f"  {row} " + f"{value} " * 8 for row in rows.split()])


def test_idle_page_stats() -> None:
    stats = parse.parse_idle_page_stats(idle_text())
    assert stats[:5] == ("1.0", 24, 24, 5, True)
    assert stats.buckets == [1, 2, 5, 15, 30, 60, 120, 240]
    assert list(stats.rows)[-1] == "slab"
    # Four rows of inactive file pages, three columns from the sixth on.
    assert parse.cold_bytes(idle_text(10)) == 4 * 3 * 10
    assert parse.cold_bytes(idle_text(10), 0) == 4 * 8 * 10
    for bad in (
        idle_text() + "\n\n",
        idle_text().replace("dfui", "x"),
        idle_text().replace("buckets", "b"),
    ):
        with pytest.raises(ValueError, match="idle_page_stats"):
            parse.parse_idle_page_stats(bad)
    with pytest.raises(ValueError, match="a sum that fits"):
        parse.cold_bytes(idle_text(INT64_MAX))


@given(
    st.lists(st.lists(st.integers(0, 2**61), max_size=9), min_size=17, max_size=17),
    st.integers(-1, 9),
)
def test_cold_bytes_are_the_sum_of_what_the_file_tells(
    figures: list[list[int]], boundary: int
) -> None:
    head, tail = idle_text().split("\n")[:14], idle_text().split("\n")[14:]
    rows = [f"{line.split()[0]} {' '.join(map(str, own))}" for line, own in zip(tail, figures,
            strict=True)]  # fmt: skip
    text = "\n".join(head + rows)
    told = parse.parse_idle_page_stats(text).rows
    cold = [told[row][max(boundary, 0) :] for row in ("cfei", "dfei", "cfui", "dfui")]
    total = sum(map(sum, cold))
    if total <= INT64_MAX:
        assert parse.cold_bytes(text, boundary) == total
    else:
        with pytest.raises(ValueError, match="a sum that fits"):
            parse.cold_bytes(text, boundary)


def test_proc_stat() -> None:
    assert parse.parse_proc_stat("7 (a b) S 1 5 0\n") == ("a b", "S", 1, 5)
    # A process may name itself so that the first parenthesis misleads.
    assert parse.parse_proc_stat("7 (a) R 9 9) S 1 5 0\n") == ("a) R 9 9", "S", 1, 5)
    for bad in ("", "7 (a) SS 1 5", "7 (a) S x 5", "7 )a( S 1 5", "7 (a) S 1"):
        with pytest.raises(ValueError, match="/proc/PID/stat"):
            parse.parse_proc_stat(bad)


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 50)))
def test_ids_to_add_as_sets(present: list[int], wanted: list[int]) -> None:
    text = "".join(f"{i}\n" for i in present) + "\n"
    assert parse.parse_ids(text).tolist() == present
    assert parse.ids_to_add(text, wanted).tolist() == sorted(set(wanted) - set(present))


def test_garbage_among_ids_is_an_error() -> None:
    for bad in ("1\nx\n", "2147483648\n", "1 2\n", "-1\n"):
        with pytest.raises(ValueError, match="tasks: got"):
            parse.parse_ids(bad)


def test_lists_of_devices_and_features() -> None:
    assert parse.parse_device_values("253:0 100\n253:16 7\nTotal 5\n") == {
        (253, 0): 100,
        (253, 16): 7,
    }
    with pytest.raises(ValueError, match="blkio"):
        parse.parse_device_values("253:x 100\n")
    features = parse.parse_sched_features("A NO_B NO_A C\n")
    assert features == ({"A": True, "B": False, "C": True}, ["A"])


PARSERS = [
    lambda text: parse.parse_int64("f", text), parse.parse_memory_limit, parse.parse_key_values,
    lambda text: parse.parse_cpu_stat(text, V1), lambda text: parse.parse_cpu_usage_ns(text, V2),
    parse.parse_cpu_max, lambda text: parse.parse_memory_stat(text, V2),
    lambda text: parse.parse_numa_stat(text, V1), lambda text: parse.parse_numa_stat(text, V2),
    parse.parse_pressure, parse.parse_idle_page_stats, parse.parse_proc_stat, parse.parse_ids,
    parse.parse_device_values, parse.parse_sched_features,
]  # fmt: skip
SEEDS = [SOME + FULL, idle_text(), "anon N0=1\nfile N0=1\n", "7 (a) S 1 5", "1:2 3\n", "max 100000"]


@given(
    st.binary(max_size=40), st.sampled_from(SEEDS), st.integers(0, 400), st.sampled_from(PARSERS)
)
def test_hostile_bytes_parse_or_give_one_line(junk: bytes, seed: str, cut: int, parser) -> None:
    for content in (junk, seed.encode()[:cut] + junk):
        refusal(parser, content, errors=KERNEL_ERRORS)
