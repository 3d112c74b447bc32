# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.errors import KoordError
from koord.cli.commands.resctrl.slo_config import enabled_classes
from koord.kernels.resctrl import ClassPolicy, parse_schemata
from tests.cli.conftest import Run
from tests.outcomes import refusal

RELEASE = Path(__file__).resolve().parents[3] / "data/releases/resource-qos-config.yaml"
INTEL = ["--vendor", "intel", "--cbm-mask", "3ff", "--l3-ids", "0-1"]
AMD = ["--vendor", "amd", "--cbm-mask", "ffff", "--l3-ids", "0-15"]


@pytest.fixture
def plan(koord: Run) -> Run:
    return partial(koord, "resctrl", "plan")


def table(name: str, value: object, count: int) -> str:
    return f"{name}:" + "".join(f"{i}={value};" for i in range(count))


def test_the_release_example_on_intel(plan) -> None:
    status, out, err = plan(*INTEL, "--config", RELEASE, "-o", "json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "LS": ["L3:0=3ff;1=3ff;", "MB:0=100;1=100;"],
        "BE": ["L3:0=7;1=7;", "MB:0=100;1=100;"],
    }
    assert plan(*INTEL, "--config", RELEASE)[1].splitlines() == [
        "LS  L3:0=3ff;1=3ff;",
        "LS  MB:0=100;1=100;",
        "BE  L3:0=7;1=7;",
        "BE  MB:0=100;1=100;",
    ]


def test_the_release_example_on_amd(plan) -> None:
    status, out, _ = plan(*AMD, "--config", RELEASE, "-o", "json")
    lines = json.loads(out)
    assert status == 0
    assert lines["LS"] == [table("L3", "ffff", 16), table("MB", 2048, 16)]
    assert lines["BE"] == [table("L3", "1f", 16), table("MB", 2048, 16)]
    # The release notes write the same tables without the last semicolon.
    assert parse_schemata(lines["LS"][0].rstrip(";")) == parse_schemata(lines["LS"][0])


def config(tmp_path: Path, text: str) -> str:
    path = tmp_path / "config"
    path.write_text(text)
    return str(path)


def strategy(**classes: object) -> str:
    return json.dumps(
        {"clusterStrategy": {f"{k}Class": {"resctrlQOS": v} for k, v in classes.items()}}
    )


def test_bare_json_with_defaults_and_keys_of_any_case(tmp_path: Path) -> None:
    text = strategy(
        lsr={"ENABLE": True, "MBAPERCENT": 35}, ls={"enable": False}, be={"enable": True}
    )
    assert enabled_classes(config(tmp_path, text))[0] == [
        ClassPolicy("LSR", 0, 100, 35),
        ClassPolicy("BE", 0, 30, 100),
    ]


def test_the_config_map_with_the_section_is_found_among_others(tmp_path: Path) -> None:
    text = strategy(be={"enable": True})
    maps = [{"kind": "ConfigMap", "data": data} for data in ({}, {"resource-qos-config": text})]
    documents = "\n---\n".join(json.dumps(document) for document in [{"kind": "Service"}, *maps])
    assert enabled_classes(config(tmp_path, documents))[0] == [ClassPolicy("BE", 0, 30, 100)]


def test_a_narrow_range_is_widened_and_said(plan, tmp_path: Path) -> None:
    text = strategy(be={"enable": True, "catRangeStartPercent": 11, "catRangeEndPercent": 15})
    status, out, err = plan(
        *INTEL, "--min-cbm-bits", 2, "--config", config(tmp_path, text), "-o", "json"
    )
    assert (status, json.loads(out)["BE"][0]) == (0, "L3:0=c;1=c;")
    assert err == "note: BE: L3: range widened to 2 ways, the fewest the hardware takes\n"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            '{"clusterStrategy": {"beClass": {"resctrlQOS": {"enable": true, "mbaPercentt": 30}}}}',
            "data.resource-qos-config.clusterStrategy.beClass.resctrlQOS.mbaPercentt: no field of"
            " that name, it has no effect; did you mean mbaPercent?",
        ),
        (
            '{"clusterStrategy": {"beClass": {"resctrlQOS": {"enable": false}}}}',
            "no class has resctrlQOS with enable: true, so nothing is planned",
        ),
    ],
)
def test_what_has_no_effect_is_said(plan, tmp_path: Path, text: str, warning: str) -> None:
    path = config(tmp_path, text)
    status, _, err = plan(*INTEL, "--config", path)
    assert (status, err) == (0, f"warning: {path}: {warning}\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--amd-full-scale", 160],
            "error: --amd-full-scale: got '160', expected none beside --vendor intel, where it"
            " has no effect\n",
        ),
        (
            ["--min-cbm-bits", 11],
            "error: --min-cbm-bits: got 11, expected at most 10, the bits of --cbm-mask\n",
        ),
    ],
)
def test_flags_that_do_not_go_together(plan, words: list[object], expected: str) -> None:
    assert plan(*INTEL, "--config", RELEASE, *words) == (2, "", expected)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--vendor", "arm", "error: --vendor: got 'arm', expected intel or amd"),
        ("--cbm-mask", "101", "error: --cbm-mask: cbm mask: got '101', expected a hex number"),
        ("--cbm-mask", "fffffffff", "error: --cbm-mask: cbm mask: got 'fffffffff', expected"),
        ("--l3-ids", "1-0", "error: --l3-ids: l3 ids: got '1-0', expected ids and ranges"),
        # A byte that is no UTF-8, as Python hands it over from the command line.
        ("--l3-ids", "\udcff", r"error: --l3-ids: l3 ids: got '\\xff', expected ids and ranges"),
        ("--l3-ids", "", "error: --l3-ids: l3 ids: got '', expected ids and ranges"),
        ("--config", "/nowhere", "error: /nowhere: got '/nowhere', expected something readable"),
    ],
)
def test_a_bad_option_is_one_line(plan, option: str, value: str, expected: str) -> None:
    arguments = dict(zip(INTEL[::2], INTEL[1::2], strict=True)) | {"--config": str(RELEASE)}
    arguments[option] = value
    status, out, err = plan(*[part for pair in arguments.items() for part in pair])
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(expected)


BE = "clusterStrategy.beClass.resctrlQOS"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            strategy(be={"enable": True, "mbaPercent": 101}),
            f"{BE}.mbaPercent: got 101, expected a number from 0 to 100",
        ),
        (
            strategy(be={"enable": True, "mbaPercent": "x"}),
            f"{BE}.mbaPercent: got 'x', expected an integer",
        ),
        (
            strategy(be={"enable": True, "mbaPercent": True}),
            f"{BE}.mbaPercent: got True, expected an integer",
        ),
        (strategy(be={"enable": 1}), f"{BE}.enable: got 1, expected true or false"),
        (
            strategy(be={"enable": True, "catRangeStartPercent": 30}),
            f"{BE}.catRangeStartPercent: got 30, expected less than catRangeEndPercent, 30",
        ),
        (strategy(be=[]), f"{BE}: got [], expected an object"),
        ("{}", "got {}, expected an object with clusterStrategy"),
        ("", "got None, expected an object with clusterStrategy"),
        ("a: [", "expected YAML or JSON"),
        ("data: {}", "data.resource-qos-config: got None, expected the JSON text of this section"),
        ("data: {resource-qos-config: '{'}", "data.resource-qos-config: got "),
    ],
)
def test_a_bad_config_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = config(tmp_path, text)
    with pytest.raises(KoordError) as raised:
        enabled_classes(path)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(path)


@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]":, \n-&*!abc019', max_size=60).map(str.encode)
)
def test_any_bytes_give_classes_or_one_line(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(content)
    refusal(enabled_classes, str(path))
