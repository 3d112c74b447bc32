# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from koord.base.errors import KoordError
from koord.cli.commands.simulate.command import parse_load, parse_policies, parse_seeds
from tests.cli.conftest import Run

OPENB = Path(__file__).resolve().parents[4] / "examples" / "openb"
NODES = OPENB / "openb_node_list_gpu_node.csv"
PODS = OPENB / "openb_pod_list_default.csv"
ORDER = OPENB / "orders" / "default.42.txt.gz"


@pytest.fixture
def openb(koord: Run) -> Run:
    return partial(koord, "simulate", "openb")


def test_json_is_the_published_experiment(openb) -> None:
    words = ["--nodes", NODES, "--pods", PODS, "--policy", "fgd", "--order", ORDER, "-o", "json"]
    status, out, _ = openb(*words)
    assert status == 0
    (run,) = json.loads(out)["runs"]
    assert list(run) == [
        "policy", "order", "pods_submitted", "pods_failed", "gpu_allocated_percent",
        "fragmented_percent", "fragmentation_ratio", "cpu_allocated_percent", "seconds",
    ]  # fmt: skip
    assert (run["policy"], run["order"]) == ("fgd", "default.42.txt.gz")
    assert (run["pods_submitted"], run["pods_failed"]) == (10866, 2532)
    assert list(run["gpu_allocated_percent"]) == [str(cell) for cell in range(131)]
    assert run["gpu_allocated_percent"]["130"] == 95.29


def test_text_has_a_row_a_policy_and_a_report(openb, tmp_path: Path) -> None:
    words = ["--nodes", NODES, "--pods", PODS, "--policy", "bestfit,packing", "--seeds", "1,2"]
    status, out, _ = openb(*words, "--report", tmp_path)
    assert status == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["policy", "bestfit", "packing"]
    report = Path(lines[3].removeprefix("report: "))
    assert report.parent == tmp_path
    assert report.is_file()


def test_several_orders_after_one_option(openb) -> None:
    words = ["--nodes", NODES, "--pods", PODS, "--policy", "fit", "-o", "json", "--order"]
    orders = sorted((OPENB / "orders").glob("default.4[23]*"))
    status, out, _ = openb(*words, *orders)
    assert status == 0
    runs = json.loads(out)["runs"]
    assert [run["order"] for run in runs] == [path.name for path in orders]


def test_results_do_not_depend_on_threads(monkeypatch, openb) -> None:
    words = ["--nodes", NODES, "--pods", PODS, "--policy", "random,fgd", "--seeds", "7", "-o"]
    found = []
    for cores in (1, 4):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        status, out, _ = openb(*words, "json")
        assert status == 0
        runs = json.loads(out)["runs"]
        found.append([{k: v for k, v in run.items() if k != "seconds"} for run in runs])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "fdg"], "--policy: got 'fdg', expected one of random, "),
        (["--policy", "fgd", "--seeds", "x"], "--seeds: got 'x', expected seeds such as 42-51"),
        (["--policy", "fgd", "--load", "0"], "--load: got '0', expected a number above 0"),
        (["--policy", "fgd", "--order", "no.txt"], "no.txt: got 'no.txt', expected something"),
        (["--policy", "fgd", "--order", ORDER, "--seeds", "1"], "or --seeds LIST, not both"),
        (["--policy", "fgd", ORDER], "expected files after --order alone"),
        (
            ["--policy", "fgd", "--order", ORDER, "--load", "1.2"],
            "error: --load: got '1.2', expected none beside --order, where it has no effect\n",
        ),
        (
            ["--policy", "fit", "--seeds", "1", "--report", "/proc/sys"],
            "error: --report: got '/proc/sys', expected a folder that can be written (",
        ),
        (["--policy", "fgd", "--order", NODES], "an empty line after the nodes"),
        (["--policy", "fit", "--seeds", "1", "--report", "/dev/null/x"], "--report: got"),
    ],
)
def test_bad_words_end_in_one_line(openb, words: list[object], message: str) -> None:
    status, _, err = openb("--nodes", NODES, "--pods", PODS, *words)
    assert (status, err.count("\n")) == (2, 1)
    assert message in err
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "want"), [("42-44", [42, 43, 44]), ("3,1,3", [3, 1]), ("7", [7]), ("1-2,5", [1, 2, 5])]
)
def test_seeds(text: str, want: list[int]) -> None:
    assert parse_seeds(text) == want


@pytest.mark.parametrize("text", ["", "4-", "-4", "5-4", "1,,2", "a", "0-99999999", "1 2", "٣"])
def test_bad_seeds(text: str) -> None:
    with pytest.raises(KoordError, match="--seeds"):
        parse_seeds(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x", "", "1e9"])
def test_bad_loads(text: str) -> None:
    with pytest.raises(KoordError, match="--load"):
        parse_load(text)


def test_policies_name_the_nearest() -> None:
    assert parse_policies("fgd,fit,fgd") == ["fgd", "fit"]
    with pytest.raises(KoordError, match=r"did you mean packing\?"):
        parse_policies("paking")


PROFILE = OPENB.parent / "scheduler" / "fragmentation-aware.yaml"


@pytest.fixture
def small(tmp_path: Path) -> list[object]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,8000,9999,2,T4\nn1,8000,9999,1,A10\n")
    rows = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"]
    rows += [f"p{i},1000,100,1,{250 if i % 2 else 1000},{'A10' if i == 2 else ''}"
             for i in range(6)]  # fmt: skip
    pods.write_text("\n".join(rows) + "\n")
    return ["--nodes", nodes, "--pods", pods, "--policy", "fgd", "--seeds", "1,2"]


def test_the_scheduler_stands_beside_the_policies(openb, small: list[object]) -> None:
    status, out, err = openb(*small, "--through-scheduler", PROFILE, "-o", "json")
    assert (status, err) == (0, "")
    runs = json.loads(out)["runs"]
    assert [(run["policy"], run["seed"]) for run in runs] == [
        ("fgd", 1), ("fgd", 2), ("scheduler", 1), ("scheduler", 2),
    ]  # fmt: skip
    assert [run["pods_submitted"] for run in runs[:2]] == [
        run["pods_submitted"] for run in runs[2:]
    ]
    assert all(0 < run["cpu_allocated_percent"] <= 100 for run in runs)
    assert list(runs[0]) == list(runs[2])


def test_the_scheduler_has_a_row_and_a_curve(openb, small, tmp_path: Path) -> None:
    words = ["--through-scheduler", PROFILE, "--report", tmp_path / "report"]
    status, out, _ = openb(*small, *words)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["policy", "fgd", "scheduler"]
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "<td>scheduler</td>" in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "scheduler.yaml"),
        ("apiVersion: v1\nkind: Pod\n", "scheduler.yaml: apiVersion: got 'v1'"),
        (None, "scheduler.yaml: "),
    ],
)
def test_a_bad_configuration_ends_in_one_line(openb, small, tmp_path, text, message) -> None:
    path = tmp_path / "scheduler.yaml"
    if text is not None:
        path.write_text(text)
    status, out, err = openb(*small, "--through-scheduler", path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_share_finer_than_percent_ends_in_one_line(openb, small, tmp_path: Path) -> None:
    pods = tmp_path / "pods.csv"
    pods.write_text(pods.read_text().replace(",250,", ",255,"))
    status, _, err = openb(*small, "--through-scheduler", PROFILE)
    assert (status, err.count("\n")) == (2, 1)
    assert "gpu_milli: got 255, expected a multiple of 10" in err


def test_moves_are_shown_planned_and_one_by_one(openb, tmp_path: Path) -> None:
    words = ["--nodes", NODES, "--pods", PODS, "--policy", "bestfit", "--order", ORDER]
    status, out, _ = openb(*words, "--defragment", "5", "-o", "json")
    assert status == 0
    (run,) = json.loads(out)["runs"]
    assert [point["moves"] for point in run["planned"]] == [0, 5]
    assert run["planned"][1]["gpus_fit"] > run["planned"][0]["gpus_fit"]
    assert run["one_by_one"][0] == run["planned"][0]
    status, out, _ = openb(*words, "--defragment", "5", "--report", tmp_path)
    assert status == 0
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["bestfit", "planned"], ["bestfit", "one"]]
    assert all(len(line) <= 80 for line in lines[:-1])
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("<svg") == 1


def test_moves_do_not_go_through_the_scheduler(openb, tmp_path: Path) -> None:
    words = ["--nodes", NODES, "--pods", PODS, "--policy", "bestfit", "--defragment", "5"]
    status, _, error = openb(*words, "--through-scheduler", tmp_path / "none.yaml")
    assert status == 2
    assert "none beside --defragment" in error
