# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import resctrl
from koord.kernels.resctrl import ClassPolicy, Limits, Schemata, Vendor
from tests.models import resctrl as model
from tests.outcomes import KERNEL_ERRORS, refusal

percents = st.integers(-1, 101)


@pytest.mark.parametrize(
    ("cbm", "start", "end", "mask"),
    [("ff", 0, 100, "ff"), ("3ff", 10, 80, "fe"), ("3ff", 10, 85, "1fe"), ("7ff", 10, 50, "3c"),
     ("3ff", 0, 30, "7"), ("ffffffff", 0, 100, "ffffffff")],
)  # fmt: skip
def test_masks_of_percentages(cbm: str, start: int, end: int, mask: str) -> None:
    limits = Limits(resctrl.parse_cbm_mask(cbm))
    assert resctrl.cache_mask(limits, start, end) == (int(mask, 16), False, 0)


@pytest.mark.parametrize("cbm", ["101", "4", "0", "", "x", "-1", "1ffffffff", "0x", "f f"])
def test_a_mask_with_holes_is_refused(cbm: str) -> None:
    with pytest.raises(ValueError, match="cbm mask: got"):
        resctrl.parse_cbm_mask(cbm)


def test_a_range_without_a_way_is_widened_and_reported() -> None:
    # 10 ways: 11 to 15 percent begins and ends at way 2.
    assert resctrl.cache_mask(Limits(0x3FF), 11, 15) == (0b100, True, 0)
    assert resctrl.cache_mask(Limits(0x3FF, min_cbm_bits=2), 95, 100) == (0x300, True, 0)
    assert resctrl.cache_mask(Limits(0x3FF, shareable_bits=0x300), 0, 100).shared == 0x300


@pytest.mark.parametrize(
    ("vendor", "percent", "value"),
    [("intel", 85, 90), ("intel", 1, 10), ("intel", 100, 100), ("amd", 80, 128), ("amd", 33, 52),
     ("amd", 1, 1), ("amd", 99, 158), ("amd", 100, 2048)],
)  # fmt: skip
def test_bandwidths_of_percentages(vendor: str, percent: int, value: int) -> None:
    assert resctrl.bandwidth(Vendor(vendor), Limits(0xF), percent).value == value


def test_a_bandwidth_below_the_least_is_raised_and_reported() -> None:
    limits = Limits(0xF, bandwidth_gran=5, min_bandwidth=20)
    assert resctrl.bandwidth(Vendor.INTEL, limits, 7) == (20, True)
    assert resctrl.bandwidth(Vendor.INTEL, limits, 21) == (25, False)


@given(st.integers(0, 32), percents, percents, st.integers(1, 33))
def test_masks_as_the_model(ways: int, start: int, end: int, min_bits: int) -> None:
    cbm = 2**ways - 1
    want = model.cache_mask(cbm, start, end, min_bits)
    if want is None:
        with pytest.raises(ValueError, match="got"):
            resctrl.cache_mask(Limits(cbm, min_bits), start, end)
        return
    mask = resctrl.cache_mask(Limits(cbm, min_bits), start, end)
    assert mask.bits == want
    # What the kernel asks of a mask: contiguous, within the cache, wide enough.
    low = mask.bits & -mask.bits
    assert ((mask.bits + low) & mask.bits) == 0
    assert mask.bits & ~cbm == 0
    assert mask.bits.bit_count() >= min_bits


@given(
    st.sampled_from(["intel", "amd"]), st.integers(1, 100), st.integers(1, 20),
    st.integers(1, 20), st.integers(1, 2048),
)  # fmt: skip
def test_bandwidths_as_the_model(
    vendor: str, percent: int, step: int, least: int, full: int
) -> None:
    limits = Limits(0xF, 1, 0, 0, step, least, full)
    value = resctrl.bandwidth(Vendor(vendor), limits, percent).value
    assert value == model.bandwidth(vendor, percent, step, least, full)


tables = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1), max_size=4)


@given(tables, tables)
def test_format_and_parse_are_inverse(l3: dict[int, int], mb: dict[int, int]) -> None:
    schemata = Schemata(l3, mb)
    text = schemata.format()
    assert text == model.format_table("L3", l3, "x") + model.format_table("MB", mb, "d")
    if len(l3) == len(mb):
        assert resctrl.parse_schemata(text) == schemata
    else:
        with pytest.raises(ValueError, match=f"got '{len(mb)} ids', expected {len(l3)} ids"):
            resctrl.parse_schemata(text)


@given(st.text(alphabet="0123456789abcf=;: x", max_size=30))
def test_a_table_as_the_model(pairs: str) -> None:
    line = f"L3:{pairs}"
    if pairs.count(":"):
        with pytest.raises(ValueError, match="schemata: got"):
            resctrl.parse_schemata(line)
        return
    try:
        want = model.parse_table(line, 16)
    except ValueError:
        want = None
    try:
        got = resctrl.parse_schemata(line).l3
    except ValueError:
        got = None
    # Python takes 0x before hex digits, the kernel's text never has it.
    if "0x" not in pairs:
        assert got == want


def test_the_examples_of_schemata() -> None:
    assert Schemata(l3={8: 0xFFF, 0: 0xFFF}).format() == "L3:0=fff;8=fff;\n"
    amd = "    L3:0=ffff;1=ffff\n  MB:0=2048;1=2048\nL2:0=ff\n\n"
    parsed = resctrl.parse_schemata(amd, 2)
    assert parsed == ({0: 0xFFFF, 1: 0xFFFF}, {0: 2048, 1: 2048}, {"L2": "0=ff"})
    for bad in ("L3:0=zz", "MB:0=1.5", "L3 0=f", "L3:0=f:1", "MB:0=-1"):
        with pytest.raises(ValueError, match="schemata"):
            resctrl.parse_schemata(bad)
    with pytest.raises(ValueError, match="got '1 ids', expected 3 ids"):
        resctrl.parse_schemata("L3:0=f", 3)


def test_one_table_of_sparse_ids_is_found_in_the_whole_file() -> None:
    current = resctrl.parse_schemata("L3:0=fff;8=fff\nMB:0=100;8=100\n")
    assert resctrl.parse_schemata("L3:0=fff;8=fff;").holds_in(current)
    assert not resctrl.parse_schemata("L3:0=fff;8=7ff;").holds_in(current)
    assert not resctrl.parse_schemata("MB:0=100;1=100;").holds_in(current)


def test_a_plan_has_one_line_a_table() -> None:
    classes = [ClassPolicy("LS", 0, 100, 0), ClassPolicy("BE", 0, 30, 85), ClassPolicy("LSR")]
    assert resctrl.plan(Vendor.INTEL, Limits(0xFFF), [8, 0], classes) == [
        ("LS", ["L3:0=fff;8=fff;"], []),
        ("BE", ["L3:0=f;8=f;", "MB:0=90;8=90;"], []),
        ("LSR", [], []),
    ]


@pytest.mark.parametrize(
    ("limits", "ids", "policy", "message"),
    [
        (Limits(0xF, num_closids=1), [0], (0, 30, 10), "num_closids: got '1', expected at least 2"),
        (Limits(0xF), [], (0, 30, 10), "l3 ids: got ''"),
        (Limits(0xF), [-1], (0, 30, 10), "l3 ids: got '-1'"),
        (Limits(0xF), [0], (30, 30, 10), "cache range percent: got '30-30'"),
        (
            Limits(0xF, min_cbm_bits=5),
            [0],
            (0, 30, 10),
            "min_cbm_bits: got '5', expected at most 4",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(
    limits: Limits, ids: list[int], policy: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        resctrl.plan(Vendor.INTEL, limits, ids, [ClassPolicy("BE", *policy)])


def tree(root: Path, **changes: str | None) -> Path:
    files: dict[str, str | None] = {
        "info/L3/cbm_mask": "7ff\n", "info/L3/min_cbm_bits": "2\n",
        "info/L3/shareable_bits": "600\n", "info/L3/num_closids": "16\n",
        "info/MB/bandwidth_gran": "10\n", "info/MB/min_bandwidth": "10\n",
        "info/MB/delay_linear": "1\n", "info/MB/num_closids": "8\n",
        "schemata": "MB:0=100;8=100\nL3:0=7ff;8=7ff\n",
    }  # fmt: skip
    files.update(changes)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text)
    return root


def test_the_limits_come_from_the_info_tree(tmp_path: Path) -> None:
    assert resctrl.read_info(tree(tmp_path)) == (
        Limits(0x7FF, 2, 0x600, 8, 10, 10, 160), True, True, [0, 8],
    )  # fmt: skip


def test_cache_control_alone_is_enough(tmp_path: Path) -> None:
    gone = dict.fromkeys(f"info/MB/{n}" for n in ("bandwidth_gran", "min_bandwidth", "num_closids"))
    info = resctrl.read_info(tree(tmp_path, schemata="L3:0=7ff\n", **gone))
    assert (info.has_bandwidth, info.limits.num_closids, info.l3_ids) == (False, 16, [0])


@pytest.mark.parametrize(
    ("file", "text"),
    [("info/L3/cbm_mask", "5\n"), ("info/L3/cbm_mask", ""), ("info/L3/min_cbm_bits", "two"),
     ("info/L3/num_closids", "99999999999999999999"), ("info/L3/shareable_bits", "\x00"),
     ("schemata", "MB:0=100\n"), ("schemata", "")],
)  # fmt: skip
def test_a_file_the_kernel_would_not_write_is_named(tmp_path: Path, file: str, text: str) -> None:
    with pytest.raises(ValueError, match="got"):
        resctrl.read_info(tree(tmp_path, **{file: text}))


def test_without_cache_control_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        resctrl.read_info(tree(tmp_path, **{"info/L3/cbm_mask": None}))


def test_counters() -> None:
    assert resctrl.parse_counter("123\n") == 123
    assert resctrl.parse_counter("Unavailable\n") is None
    with pytest.raises(ValueError, match="monitoring counter"):
        resctrl.parse_counter("")


@given(
    st.binary(max_size=60),
    st.sampled_from(["parse_schemata", "parse_counter", "parse_cbm_mask", "parse_l3_ids"]),
)
def test_any_bytes_parse_or_give_one_line(content: bytes, parser: str) -> None:
    refusal(getattr(resctrl, parser), content, errors=KERNEL_ERRORS)
