# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from koord.base.errors import KoordError, MissingExtraError
from koord.simulator.openb import plots
from koord.simulator.openb.published_results import read_published
from koord.simulator.openb.replay import Experiment, RunResult
from koord.simulator.openb.report import write_report
from koord.simulator.openb.trace import read_nodes, read_pods
from koord.simulator.openb.workload import sample
from koord.simulator.svg_charts import from_zero

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


def _texts(picture: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture)


@pytest.mark.parametrize(("values", "begins"), [([0, 52], 0), ([4, 15], 3.45), ([0, -3], -3.15)])
def test_axes_do_not_begin_below_what_can_be(values: list[float], begins: float) -> None:
    """A share or a count is never below zero; what moves cost may be."""
    figure, axes = plots.pyplot().subplots()
    axes.plot([0, 50], values)
    from_zero(axes)
    assert axes.get_xlim()[0] == 0
    assert axes.get_ylim()[0] == pytest.approx(begins)
    plots.pyplot().close(figure)


def test_curves_and_moves_begin_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def floor(axes: Any) -> None:
        from_zero(axes)
        seen.append(axes.get_ylim()[0])

    monkeypatch.setattr(plots, "from_zero", floor)
    plots.curves_svg({"koord": np.array([np.linspace(0.0, 96.0, 131)])}, "a share")
    assert seen == [0]


def test_every_group_of_nodes_that_is_seen_has_its_name(runs: list[RunResult]) -> None:
    nodes = read_nodes(OPENB / "openb_node_list_gpu_node.csv")
    pods = read_pods(DEFAULT)[:300]
    whole = Experiment.of(nodes, pods).run("bestfit", sample(nodes, pods, 0.01, 1))
    texts = _texts(plots.heat_map_svg({"bestfit": whole.nodes}))
    assert [text for text in texts if text[0] in "GTPV" and text[1:2].isdigit()] == [
        "G2", "T4", "P100", "V100M16", "G3", "V100M32",
    ]  # fmt: skip


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
