# SPDX-License-Identifier: Apache-2.0
"""The ``koord`` command as a whole: every way to call it wrongly ends in one line and a status."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from koord.cli import main as cli
from tests.cli.process.used_cpu import ResultSeconds

Run = Callable[..., tuple[int, str, str]]

DATA = Path(__file__).resolve().parents[1] / "data"
OPENB = Path(__file__).resolve().parents[2] / "examples" / "openb"
NODES = str(OPENB / "openb_node_list_gpu_node.csv")
PODS = str(OPENB / "openb_pod_list_default.csv")
CONFIG = str(DATA / "releases/resource-qos-config.yaml")
TOPOLOGY = ["topology", "show"]
QUOTA = ["quota", "runtime"]
PLAN = ["resctrl", "plan", "--vendor", "intel", "--cbm-mask", "3ff", "--l3-ids", "0-1"]
OPENB_RUN = ["simulate", "openb", "--nodes", NODES, "--pods", PODS]
PROGRAM = [sys.executable, "-c", "from koord.cli.entry import main; main()"]
WHOLE = "expected a whole number from 1 to"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["koord", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["bogus"], "No such command 'bogus' (see koord --help)"),
        (["--bogus"], "koord: got '--bogus', expected a known flag, as koord --help lists them"),
        (["topology", "bogus"], "No such command 'bogus' (see koord topology --help)"),
        ([*TOPOLOGY, "--bogus"], "koord topology show: got '--bogus', expected a known flag, "
         "as koord topology show --help lists them"),
        ([*TOPOLOGY, "--rot", "/"],
         "koord topology show: got '--rot', expected a known flag, such as --root"),
        ([*TOPOLOGY, "--root"], "Option '--root' requires an argument"),
        ([*TOPOLOGY, "-o"], "Option '-o' requires an argument"),
        ([*TOPOLOGY, "-o", "yaml"], "--output: got 'yaml', expected text or json"),
        ([*TOPOLOGY, "--root", ""],
         "--root: got '', expected something readable (No such file or directory)"),
        ([*TOPOLOGY, "--root", "\udcff"],
         r"--root: got '\udcff', expected something readable (No such file or directory)"),
        (["topology", "pick"], "Missing argument 'N' (see koord topology pick --help)"),
        ([*QUOTA, "x"], "Missing option '--total' (see koord quota runtime --help)"),
        ([*QUOTA, "a\nb", "--total", "cpu=1"],
         r"a\nb: got 'a\nb', expected something readable (No such file or directory)"),
        (PLAN, "Missing option '--config' (see koord resctrl plan --help)"),
        ([*PLAN, "--config", CONFIG, "--min-cbm-bits", "x"],
         f"--min-cbm-bits: got 'x', {WHOLE} 32"),
        ([*PLAN, "--config", CONFIG, "--min-cbm-bits", "-1"],
         f"--min-cbm-bits: got '-1', {WHOLE} 32"),
        ([*PLAN, "--config", CONFIG, "--amd-full-scale", "9" * 30],
         f"--amd-full-scale: got '{'9' * 30}', {WHOLE} 2048"),
        (OPENB_RUN, "Missing option '--policy' (see koord simulate openb --help)"),
        ([*OPENB_RUN, "--policy", "fgd", "--seeds", ""],
         "--seeds: got '', expected seeds such as 42-51 or 42,44, up to 999999999, at most 10000"),
        # Said before the runs, which would print a table.
        ([*OPENB_RUN, "--policy", "fgd", "--report", NODES],
         f"--report: got '{NODES}', expected a folder that can be written (File exists)"),
    ],
)  # fmt: skip
def test_wrong_words_end_in_one_line(run: Run, words: list[str], error: str) -> None:
    assert run(*words) == (2, "", f"error: {error}\n")


@pytest.mark.parametrize("group", [[], ["topology"], ["quota"], ["resctrl"], ["simulate"]])
def test_a_group_alone_shows_its_help(run: Run, group: list[str]) -> None:
    status, out, err = run(*group)
    assert (status, err) == (2, "")
    assert " ".join(["Usage: koord", *group, "VERB [FLAG]..."]) in out


def test_the_version(run: Run) -> None:
    status, out, err = run("--version")
    assert (status, err) == (0, "")
    assert out[0].isdigit()


def test_a_bug_is_one_line_that_says_how_to_see_more(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("never\nmind")

    monkeypatch.setattr(cli, "build", lambda: broken)
    error = "internal: ZeroDivisionError: never (a bug of koord; KOORD_DEBUG=1 shows where)"
    assert run() == (1, "", f"error: {error}\n")
    monkeypatch.setenv("KOORD_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_without_matplotlib_the_extra_is_named_before_the_runs(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(*OPENB_RUN, "--policy", "fit", "--seeds", "1", "--report", tmp_path) == (
        1,
        "",
        "error: package matplotlib: got 'no such package', "
        "expected it from pip install 'koord[sim]'\n",
    )


def test_a_table_is_never_cut(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")
    name = "q" * 220
    quota = tmp_path / "quota.json"
    quota.write_text(
        '{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",'
        f'"metadata": {{"name": "{name}"}}, "spec": {{"max": {{"cpu": 5}}}}}}'
    )
    status, out, _ = run(*QUOTA, quota, "--total", "cpu=5")
    assert status == 0
    (row,) = [line for line in out.splitlines() if name in line]
    assert row.split()[-1] == "0"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    with subprocess.Popen(
        [*PROGRAM, "topology", "show", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdout
        assert program.stderr
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_is_one_line(form: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "topology", "show", "-o", form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    error = f"error: standard output: {os.strerror(errno.ENOSPC)}\n"
    assert (done.returncode, done.stderr) == (1, error)


def test_an_interrupt_during_the_imports_ends_quietly_too() -> None:
    program = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from koord.cli.entry import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_an_interrupt_leaves_the_runs_that_were_done() -> None:
    words = [*OPENB_RUN, "--policy", "random,fgd", "--seeds", "1-200"]
    with subprocess.Popen(
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that runs the tests in the background has them ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as program:
        # Past the first runs on any machine, and far less than the 400 take.
        results = ResultSeconds()
        while results.of(program.pid) < 2:
            time.sleep(0.1)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    assert program.returncode == 130
    # On a slow machine lines of progress come first.
    said = re.search(rb"^interrupted: partial result: (\d+) of 400 runs\n\Z", err, re.MULTILINE)
    assert said, err
    assert 0 < int(said[1]) < 400
    # What had ended is shown: a row a policy, which tells how many of its runs it is the mean of.
    rows = [line.split() for line in out.splitlines()[1:]]
    assert sum(int(row[1]) for row in rows) == int(said[1])
