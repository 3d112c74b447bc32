# SPDX-License-Identifier: Apache-2.0
"""``koord up -d``, ``koord status``, ``koord down``: who is ended, and who never is."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.base.errors import KoordError
from koord.cli.commands.up import background, process_record
from tests.cli.conftest import Run


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else's."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def _record(folder: Path, **changed: Any) -> None:
    """A record that names a process, made by hand."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    found = {"format": 1, "pid": 1, "started": 1, "boot": boot, "up": {}, **changed}
    (folder / "up.json").write_text(json.dumps(found))


@pytest.fixture
def program() -> Run:
    """The command as a process: what it starts is not this one's child."""

    def run(*words: object) -> tuple[int, str, str]:
        code = "from koord.cli.entry import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run


def test_a_cluster_is_started_looked_at_and_ended(
    program: Run, koord: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = "kind: Config\ncurrent-context: prod\ncontexts: [{name: prod, context: {}}]\n"
    (tmp_path / "config").write_text(theirs)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    data = tmp_path / ".koord"
    status, out, err = program("up", "-d", "--nodes", 1, "--kubeconfig-merge", "--insecure")
    assert status == 0, err
    # What is being started is told while one waits.
    steps = ("API server", "definitions and priority classes", "controllers", "scheduler",
             "manager", "webhooks", "nodes")  # fmt: skip
    assert err.splitlines() == [f"starting: {step}" for step in steps]
    assert "is up; koord down ends it." in out
    try:
        status, out, _ = koord("status", "-o", "json")
        found = json.loads(out)
        assert (status, found["state"], found["nodes"]) == (0, "up", 1)
        assert found["data"] == str(data)
        log = Path(f"/proc/{found['pid']}/fdinfo/2").read_text().split()
        assert int(log[log.index("flags:") + 1], 8) & os.O_APPEND
        merged = yaml.safe_load((tmp_path / "config").read_text())
        assert merged["current-context"] == "koord"
        assert merged["clusters"][0]["cluster"]["server"] == found["url"]
        # A second one there is refused, and the first is none the worse.
        status, out, err = koord("up", "-d")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"pid {found['pid']}" in err
        assert koord("status")[0] == 0
    finally:
        status, out, err = koord("down")
    assert (status, out, err) == (0, f"ended the cluster on {data}\n", "")
    assert yaml.safe_load((tmp_path / "config").read_text())["current-context"] == "prod"
    assert not (data / "up.json").exists()
    nobody = f"no cluster runs on {data}\n"
    assert koord("status") == (1, nobody, "")
    assert koord("down") == (0, nobody, "")


def test_one_that_does_not_come_up_says_why(koord: Run, tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database")
    status, out, err = koord("up", "-d", "--data", tmp_path)
    assert (status, out) == (2, "")
    assert "state.db" in err.splitlines()[-1]
    assert err.splitlines()[:-1] == ["starting: API server"]


def test_a_record_of_a_process_that_is_gone_ends_nobody(
    koord: Run, tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    """Nobody holds the folder: whoever has the number now is somebody else."""
    (tmp_path / "up.lock").touch()
    _record(tmp_path, pid=other.pid, started=process_record.started(other.pid))
    assert koord("down", "--data", tmp_path) == (0, f"no cluster runs on {tmp_path}\n", "")
    assert other.poll() is None


def test_a_record_that_does_not_name_the_holder_ends_nobody(
    koord: Run, tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    with process_record.held(tmp_path):
        right = process_record.read(tmp_path)
        assert right is not None
        assert right.pid == os.getpid()
        for changed in (
            {"pid": other.pid, "started": process_record.started(other.pid) - 1},
            {"pid": other.pid, "started": process_record.started(other.pid), "boot": "another"},
            {"pid": 1, "started": process_record.started(1)},
            {"pid": other.pid, "format": 2},
        ):
            _record(tmp_path, **changed)
            status, out, err = koord("down", "--data", tmp_path)
            assert (status, out, err.count("\n")) == (2, "", 1), changed
            assert "up.json" in err
        assert other.poll() is None


def test_the_number_of_a_process_that_has_just_ended_is_not_waited_for(
    koord: Run,
    tmp_path: Path,
    other: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process ended after its record was read, and another one has its number."""
    monkeypatch.setattr(background, "_END_SECONDS", 0.5)
    gone = process_record.ProcessRecord(other.pid, process_record.started(other.pid) - 1, "", {})
    monkeypatch.setattr(process_record, "read", lambda _: gone)
    assert koord("down", "--data", tmp_path) == (0, f"ended the cluster on {tmp_path}\n", "")
    assert other.poll() is None


def test_who_only_looks_is_not_taken_for_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one looks at the same time, at what a killed cluster has left."""
    (tmp_path / "up.lock").touch()
    _record(tmp_path, pid=2)
    seen: list[process_record.ProcessRecord | None] = []
    take = fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        take(descriptor, how)
        monkeypatch.setattr(fcntl, "flock", take)
        seen.append(process_record.read(tmp_path))

    monkeypatch.setattr(fcntl, "flock", flock)
    seen.append(process_record.read(tmp_path))
    assert seen == [None, None]


def test_a_cluster_that_has_just_begun_is_not_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the folder, where the record of one that was killed still lies."""
    with process_record.held(tmp_path):
        right = (tmp_path / "up.json").read_text()
        _record(tmp_path, pid=2)
        monkeypatch.setattr("time.sleep", lambda _: (tmp_path / "up.json").write_text(right))
        found = process_record.read(tmp_path)
    assert found is not None
    assert found.pid == os.getpid()


def test_a_folder_is_held_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_record, "_LOCK_SECONDS", 0.05)
    with (
        process_record.held(tmp_path),
        pytest.raises(KoordError, match="in use"),
        process_record.held(tmp_path),
    ):
        pass
    assert process_record.read(tmp_path) is None


def test_a_day_is_not_started_without_a_terminal(koord: Run) -> None:
    status, out, err = koord("up", "-d", "--colocation")
    assert (status, out) == (2, "")
    assert err.startswith("error: --detach")
