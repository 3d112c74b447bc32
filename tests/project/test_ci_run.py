# SPDX-License-Identifier: Apache-2.0
"""The order of `.ci/run`, what ends it, what it does beside a step. Its programs are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Each says that it was called; the step that WAITS lasts until what is beside it has begun.
MAKE = """#!/bin/sh
echo "make $1" >>called
if [ "$1" = "$WAITS" ]; then while [ ! -e native ]; do sleep 0.01; done; fi
[ "$1" != "$FAILS" ]
"""
NATIVE = """#!/bin/sh
echo "native $(nice)" >>called
echo "what native says"
echo $$ >pid
touch native
if [ -n "$LASTS" ]; then exec sleep 600; fi
[ native != "$FAILS" ]
"""
STEPS = ["compiler-cache", "test", "lint", "test-real", "test-vm", "bench"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a copy of `.ci/run`, whose programs do as the variables say."""
    for name, text in ((".ci/native", NATIVE), ("bin/make", MAKE)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")

    def ended(**variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), **variables}
        command = ["bash", str(tmp_path / ".ci/run")]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    return ended


def called(tmp_path: Path) -> list[str]:
    return [
        line.removeprefix("make ")
        for line in (tmp_path / "called").read_text().splitlines()
        if line.startswith("make ")
    ]


def test_all_steps_pass_and_what_is_beside_another_is_shown(run: Run, tmp_path: Path) -> None:
    # The real control plane waits for what is to run beside it.
    done = run(WAITS="test-real")
    assert done.returncode == 0, done.stderr
    assert called(tmp_path) == STEPS
    assert "native 19" in (tmp_path / "called").read_text()
    assert done.stdout.count("what native says") == 1
    assert done.stdout.index("real control plane") < done.stdout.index("what native says")


@pytest.mark.parametrize(
    ("fails", "last"),
    [("test", "test"), ("lint", "lint"), ("native", "test-real"), ("bench", "bench")],
)
def test_a_step_that_fails_ends_the_run(run: Run, tmp_path: Path, fails: str, last: str) -> None:
    done = run(FAILS=fails, WAITS="test-real")
    assert done.returncode != 0
    assert called(tmp_path) == STEPS[: STEPS.index(last) + 1]
    assert ("what native says" in done.stdout) == (fails in ("native", "bench"))
    assert "== seconds (of)" in done.stdout


def test_what_is_beside_a_step_that_fails_ends_with_it(run: Run, tmp_path: Path) -> None:
    done = run(FAILS="test-real", WAITS="test-real", LASTS="yes")
    assert done.returncode != 0
    pid = int((tmp_path / "pid").read_text())
    ends = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < ends:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
