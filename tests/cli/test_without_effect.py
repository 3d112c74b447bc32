# SPDX-License-Identifier: Apache-2.0
"""A flag that has no effect beside the others, or without one of them, is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from koord.cli import koordlet, manager, scheduler
from koord.cli.main import run_app

from .conftest import Run

PLAN = ("resctrl", "plan", "--cbm-mask", "3ff", "--l3-ids", "0-1", "--config", "x")
OPENB = ("simulate", "openb", "--nodes", "n", "--pods", "p", "--policy", "fgd")
HERE = "none beside {}, where it has no effect"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("up", "--speed", "9"), "--speed: got '9', expected --colocation beside it"),
        (("up", "--without", "nodes", "--nodes", "2"),
         "--nodes: got '2', expected " + HERE.format("--without nodes")),
        (("up", "--without", "nodes", "--seed", "2"),
         "--seed: got '2', expected " + HERE.format("--without nodes")),
        (("up", "--without", "binder"),
         "--without: got 'binder', expected scheduler beside it: the binder runs only where that "
         "is left out"),
        (("node", "status", "--every", "5s"), "--every: got '5s', expected --watch beside it"),
        (("node", "status", "--alone", "--server", "http://a"),
         "--server: got 'http://a', expected " + HERE.format("--alone")),
        (("node", "status", "--root", "/x", "--server", "http://a"),
         "--server: got 'http://a', expected " + HERE.format("--root")),
        (("explain", "pod", "p", "--server", "http://a", "--kubeconfig", "k"),
         "--kubeconfig: got 'k', expected " + HERE.format("--server")),
        (("explain", "node", "n", "--server", "http://a", "--manager", "http://b",
          "--kubeconfig", "k"),
         "--kubeconfig: got 'k', expected " + HERE.format("--server and --manager")),
        (("crds", "install", "--dry-run", "--timeout", "9"),
         "--timeout: got '9', expected " + HERE.format("--dry-run")),
        (("crds", "install", "reservations", "--guide"),
         "--guide: got 'beside a KIND', expected one of the two"),
        ((*PLAN, "--vendor", "intel", "--amd-full-scale", "80"),
         "--amd-full-scale: got '80', expected " + HERE.format("--vendor intel")),
        ((*OPENB, "--order", "o", "--load", "1.1"),
         "--load: got '1.1', expected " + HERE.format("--order")),
    ],
)  # fmt: skip
def test_it_is_refused(koord: Run, words: tuple[str, ...], error: str) -> None:
    assert koord(*words) == (2, "", f"error: {error}\n")


def test_a_scheduler_in_a_dry_run_does_not_stand_for_election(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["koord-scheduler", "--dry-run", "--leader-elect"])
    with pytest.raises(SystemExit) as stop:
        run_app(scheduler.build(), scheduler.NAME)
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "error: --leader-elect: got 'true', expected " + HERE.format("--dry-run") + "\n"
    )


def test_flags_that_go_together_are_taken(koord: Run, tmp_path: Path) -> None:
    order = tmp_path / "order.csv"
    status, _, err = koord(*OPENB, "--order", order)
    assert (status, err.count("\n")) == (2, 1)
    assert "--load" not in err
    assert koordlet.parse(["--node-name", "n", "--dry-run"])[0].dry_run
    assert manager.parse(["--dry-run"])[0].dry_run
