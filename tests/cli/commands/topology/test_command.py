# SPDX-License-Identifier: Apache-2.0
"""``koord topology``: what it prints, byte for byte, where it fails first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.cli.commands.topology.command import _state
from koord.kernels.topology import PASSES, Topology
from tests.cli.conftest import Run
from tests.kernels.sysfs_builder import Thread, write_sysfs
from tests.outcomes import refusal

# Two sockets of one node of two cores of two threads; the last core has one thread offline.
MACHINE = [
    Thread(cpu, core=cpu // 2 % 2, socket=cpu // 4, node=cpu // 4, l3=cpu // 4, online=cpu != 7)
    for cpu in range(8)
]


@pytest.fixture
def run(koord: Run) -> Run:
    return partial(koord, "topology")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_sysfs(tmp_path / "machine", MACHINE)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["0"], "N: got '0', expected a positive integer"),
        (["-1"], "N: got '-1', expected a positive integer"),
        (["1.5"], "N: got '1.5', expected a positive integer"),
        (["four"], "N: got 'four', expected a positive integer"),
        (["--bindpolicy"],
         "option: got '--bindpolicy', expected --root, --bind-policy, --exclusive-policy, "
         "--numa-strategy, --taken or --output; did you mean --bind-policy?"),
        (["1", "--bind-policy", "FullPCPU"],
         "--bind-policy: got 'FullPCPU', expected Default, FullPCPUs or SpreadByPCPUs; "
         "did you mean FullPCPUs?"),
        (["1", "--exclusive-policy", "xyz"],
         "--exclusive-policy: got 'xyz', expected None, PCPULevel or NUMANodeLevel"),
        (["1", "--numa-strategy", "leastallocated"],
         "--numa-strategy: got 'leastallocated', expected MostAllocated, LeastAllocated or "
         "DistributeEvenly; did you mean LeastAllocated?"),
        (["1", "--taken", "0-x"],
         "--taken: cpu list: got '0-x', expected ids and ranges such as 0-3,8"),
        (["1", "--taken", "0:Core"],
         "--taken: got 'Core', expected None, PCPULevel or NUMANodeLevel"),
        (["1", "--taken", "0:"],
         "--taken: got '', expected None, PCPULevel or NUMANodeLevel"),
        (["1", "--taken", "6-7"], "--taken: got '6-7', expected CPUs that are online: 0-6"),
        (["1", "--taken", "0-2", "--taken", "1-3"],
         "--taken: got '1-3', expected CPUs that no other --taken names, not 1-2"),
    ],
)  # fmt: skip
def test_pick_refuses_bad_words_in_one_line(
    run: Run, root: Path, words: list[str], error: str
) -> None:
    assert run("pick", *words, "--root", root) == (2, "", f"error: {error}\n")


def test_the_program_says_one_line_and_exits(root: Path) -> None:
    command = [sys.executable, "-c", "from koord.cli.main import main; main()", "topology"]
    done = subprocess.run(
        [*command, "pick", "0", "--root", root], capture_output=True, text=True, check=False
    )
    error = "error: N: got '0', expected a positive integer\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)


@given(st.text(max_size=12) | st.from_regex(r"[-0-9,]{0,6}:?(PCPULevel|None)?", fullmatch=True))
def test_any_text_behind_taken_is_read_or_refused_in_one_line(text: str) -> None:
    said = refusal(_state, Topology.from_cpus(range(8)), [text])
    assert not said or said.startswith("--taken")


@pytest.mark.parametrize("form", ["text", "json"])
def test_too_few_cpus_fail(run: Run, root: Path, form: str) -> None:
    reason = "not enough cpus available to satisfy request"
    error = f"error: N: got 7, expected at most 6: {reason}\n"
    assert run("pick", "7", "--taken", "0", "--root", root, "-o", form) == (1, "", error)


@pytest.mark.parametrize("verb", [["show"], ["pick", "1"]])
def test_a_root_that_is_no_machine_is_refused(run: Run, tmp_path: Path, verb: list[str]) -> None:
    nowhere, empty = tmp_path / "nowhere", tmp_path / "empty"
    empty.mkdir()
    unreadable = f"--root: got '{nowhere}', expected something readable (No such file or directory)"
    assert run(*verb, "--root", nowhere) == (2, "", f"error: {unreadable}\n")
    no_sys = f"--root: got '{empty}', expected a directory that contains sys/"
    assert run(*verb, "--root", empty) == (2, "", f"error: {no_sys}\n")


def test_a_garbled_file_is_named(run: Run, root: Path) -> None:
    file = root / "sys/devices/system/cpu/online"
    file.write_text("all\n")
    error = f"--root: {file}: got 'all', expected ids and ranges such as 0-3,8"
    assert run("show", "--root", root) == (2, "", f"error: {error}\n")


@pytest.mark.parametrize(
    ("words", "cpus", "name"),
    [
        (["4"], "0-3", "full-cores-in-node"),
        (["2", "--numa-strategy", "MostAllocated"], "4-5", "full-cores-in-node"),
        (["2", "--bind-policy", "SpreadByPCPUs"], "0,2", "one-per-core-in-node"),
        (["2", "--bind-policy", "Default", "--taken", "0-3"], "4,6", "one-per-core-in-node"),
        (["1", "--exclusive-policy", "PCPULevel", "--taken", "0-3", "--taken", "4:PCPULevel",
          "--bind-policy", "SpreadByPCPUs"], "6", "one-per-core-in-node"),
        (["5", "--taken", "0,2"], "1,3-6", "full-cores-across-sockets+fallback"),
    ],
)  # fmt: skip
def test_pick(run: Run, root: Path, words: list[str], cpus: str, name: str) -> None:
    status, out, err = run("pick", *words, "--root", root, "-o", "json")
    assert (status, json.loads(out), err) == (0, {"cpus": cpus, "pass": name}, "")


def test_pick_as_text_says_why(run: Run, root: Path) -> None:
    assert run("pick", "5", "--taken", "0,2", "--root", root) == (
        0,
        "1,3-6\n"
        f"full-cores-across-sockets: {PASSES['full-cores-across-sockets']}\n"
        f"fallback: {PASSES['fallback']}\n",
        "",
    )


def test_the_help_names_every_pass(run: Run) -> None:
    status, out, _ = run("pick", "--help")
    assert status == 0
    listed = {line.strip() for line in out.splitlines()}
    assert set(PASSES) <= listed
    assert "full-cores-across-sockets+fallback" in listed
    assert "Example:\n  koord topology pick" in out


def test_show_draws_the_machine(run: Run, root: Path) -> None:
    assert run("show", "--root", root) == (
        0,
        "7 CPUs online: 2 sockets, 2 NUMA nodes, 2 L3 domains, 4 cores, at most 2 threads a core\n"
        "socket 0  2 cores, 4 CPUs\n"
        "└── node 0\n"
        "    └── L3 0   [0 1] [2 3]\n"
        "socket 1  2 cores, 3 CPUs\n"
        "└── node 1\n"
        "    └── L3 1   [4 5] [6]\n"
        "offline: 7\n",
        "",
    )


def test_show_folds_long_lines(run: Run, tmp_path: Path) -> None:
    big = write_sysfs(tmp_path / "big", [Thread(cpu, core=cpu) for cpu in range(64)])
    _, out, _ = run("show", "--root", big)
    assert max(map(len, out.splitlines())) <= 100
    assert "[63]" in out


def test_show_says_what_is_not_told(run: Run, tmp_path: Path) -> None:
    silent = [Thread(cpu, core=None, socket=None, node=None, l3=None) for cpu in range(2)]
    root = write_sysfs(tmp_path / "silent", silent)
    assert run("show", "--root", root)[1] == (
        "2 CPUs online\nsocket ?  2 CPUs\n└── node ?\n    └── L3 ?   [0] [1]\n"
    )
    shown = json.loads(run("show", "--root", root, "-o", "json")[1])
    assert shown["summary"] == {
        "cpus": 2, "cores": None, "sockets": None, "nodes": None, "l3": None,
        "threads_per_core": None,
    }  # fmt: skip
    unknown = {"core": None, "socket": None, "node": None, "l3": None, "online": True}
    assert shown["cpus"] == [{"cpu": 0} | unknown, {"cpu": 1} | unknown]


def test_show_as_json(run: Run, root: Path) -> None:
    shown = json.loads(run("show", "--root", root, "-o", "json")[1])
    assert shown["summary"] == {
        "cpus": 7, "cores": 4, "sockets": 2, "nodes": 2, "l3": 2, "threads_per_core": 2
    }  # fmt: skip
    assert shown["cpus"][5] == {
        "cpu": 5, "core": 2, "socket": 1, "node": 1, "l3": 1, "online": True
    }  # fmt: skip
    assert shown["cpus"][7]["online"] is False


DUMPS = [
    ("x86_64-epyc_7451",
     {"cpus": 96, "cores": 48, "sockets": 2, "nodes": 8, "l3": 16, "threads_per_core": 2}),
    ("x86_64-64cpu",
     {"cpus": 64, "cores": 32, "sockets": 4, "nodes": 3, "l3": 4, "threads_per_core": 2}),
    ("x86_64-dell_e4310",
     {"cpus": 4, "cores": 2, "sockets": 1, "nodes": 1, "l3": 1, "threads_per_core": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "summary"), DUMPS)
def test_real_machines(
    run: Run, sysfs_dump: Callable[[str], Path], name: str, summary: dict[str, int]
) -> None:
    root = sysfs_dump(name)
    status, out, err = run("show", "--root", root, "-o", "json")
    assert (status, err) == (0, "")
    assert json.loads(out)["summary"] == summary
    drawing = run("show", "--root", root)[1]
    assert max(map(len, drawing.splitlines())) <= 100
    assert drawing.count("socket ") == drawing.count("also on socket ") + summary["sockets"]
