# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from koord.base.errors import KoordError, MissingExtraError
from koord.simulator.openb.published_results import read_published
from koord.simulator.openb.replay import Experiment, RunResult
from koord.simulator.openb.report import write_report
from koord.simulator.openb.trace import read_nodes, read_pods
from koord.simulator.openb.workload import sample

OPENB = Path(__file__).resolve().parents[3] / "examples" / "openb"
DEFAULT = OPENB / "openb_pod_list_default.csv"
POLICIES = ("bestfit", "fgd")


@pytest.fixture(scope="module")
def runs() -> list[RunResult]:
    nodes = read_nodes(OPENB / "openb_node_list_gpu_node.csv")[:40]
    pods = read_pods(DEFAULT)[:300]
    experiment = Experiment.of(nodes, pods)
    workloads = [sample(nodes, pods, 1.3, seed) for seed in (1, 2)]
    return [experiment.run(policy, load) for policy in POLICIES for load in workloads]


def test_the_page_needs_nothing_beside_it(runs: list[RunResult], tmp_path: Path) -> None:
    path = write_report(runs, tmp_path / "new", read_published(DEFAULT), "koord simulate <x>")
    page = path.read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!#|data:)', page.replace("xlink:", ""))
    assert "koord simulate &lt;x&gt;" in page
    assert page.count("<svg") == 5
    for policy in POLICIES:
        assert f"<td>{policy}</td>" in page


def test_the_same_runs_give_the_same_page(runs: list[RunResult], tmp_path: Path) -> None:
    pages = [write_report(runs, tmp_path / name, None, "koord").read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]


def test_the_table_holds_the_runs_own_figures(runs: list[RunResult], tmp_path: Path) -> None:
    page = write_report(runs, tmp_path, None, "koord").read_text(encoding="utf-8")
    of_fgd = [run.gpu_allocated_percent[100] for run in runs if run.policy == "fgd"]
    mean = sum(value for value in of_fgd if value is not None) / len(of_fgd)
    row = next(line for line in page.splitlines() if "<td>fgd</td>" in line)
    assert f"<td>{mean:.2f}" in row


def test_published_means_are_those_of_the_paper() -> None:
    published = read_published(DEFAULT)
    assert published is not None
    assert set(published.allocated) == {
        "random", "dotprod", "clustering", "packing", "bestfit", "fgd",
    }  # fmt: skip
    assert published.allocated["fgd"].shape == (10, 131)
    assert round(published.allocated["fgd"][:, 100].mean(), 2) == 95.23
    assert round(published.fragmented["fgd"][:, 50].mean(), 2) == 8.93
    assert round(published.ratio["fgd"][:, 80].mean(), 2) == 29.86


def test_a_list_without_published_figures_has_none(tmp_path: Path) -> None:
    assert read_published(tmp_path / "pods.csv") is None
    assert read_published(OPENB / "openb_pod_list_other.csv") is None


@pytest.mark.parametrize("text", ["workload,sc_policy\nx,06-FGD\n", "a\n1,2\n"])
def test_a_broken_published_table_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "published").mkdir()
    for name in ("alloc", "frag_amount", "frag_ratio"):
        (tmp_path / "published" / f"{name}.csv").write_text(text)
    with pytest.raises(KoordError, match=r"published/alloc.csv: got .*expected a published table"):
        read_published(tmp_path / "x.csv")


def test_without_matplotlib_the_extra_is_named(
    runs: list[RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'koord\[sim\]'"):
        write_report(runs, tmp_path, None, "koord")
