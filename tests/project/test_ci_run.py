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
# Each says that it was called; the step that WAITS lasts until the guest beside it has begun, the
# real control plane until what is compiled has.
MAKE = """#!/bin/sh
echo "$1 $(nice)" >>called
if [ "$1" = test-guest ]; then
  echo "what the guest says"
  echo $$ >pid
  touch guest
  if [ -n "$LASTS" ]; then exec sleep 600; fi
fi
if [ "$1" = "$WAITS" ]; then while [ ! -e guest ]; do sleep 0.01; done; fi
if [ "$1" = test-real ]; then while [ ! -e native ]; do sleep 0.01; done; fi
[ "$1" != "$FAILS" ]
"""
NATIVE = """#!/bin/sh
echo "native $(nice)" >>called
echo "what compiles says"
touch native
[ native != "$FAILS" ]
"""
BESIDE = ["test-guest", "build-real", "native"]
STEPS = [
    "compiler-cache", "install-lint", "test", "lint", "test-scenes", "test-examples", "test-real",
    "bench",
]  # fmt: skip

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
    """What ran one after the other."""
    lines = [line.split()[0] for line in (tmp_path / "called").read_text().splitlines()]
    return [name for name in lines if name not in BESIDE]


def test_all_steps_pass_and_what_is_beside_others_is_shown(run: Run, tmp_path: Path) -> None:
    # Lint waits for what is to run beside it.
    done = run(WAITS="lint")
    assert done.returncode == 0, done.stderr
    assert called(tmp_path) == STEPS
    # The guest goes before the steps beside it, and these before what may be there already.
    lines = (tmp_path / "called").read_text().splitlines()
    nice = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert nice["test-guest"] == nice["test"] < nice["lint"] == nice["native"]
    assert nice["build-real"] >= nice["lint"]
    assert done.stdout.count("what the guest says") == 1
    assert done.stdout.index("this machine's kernel") < done.stdout.index("what the guest says")
    assert done.stdout.index("what the guest says") < done.stdout.index("real control plane")
    assert done.stdout.count("what compiles says") == 1
    assert done.stdout.index("what compiles says") < done.stdout.index("benchmark gates")


@pytest.mark.parametrize(
    ("fails", "last"),
    [
        ("test", "test"), ("lint", "lint"), ("test-examples", "test-examples"),
        ("test-guest", "test-examples"), ("build-real", "test-examples"),
        ("test-real", "test-real"), ("native", "test-real"),
        ("bench", "bench"),
    ],
)  # fmt: skip
def test_a_step_that_fails_ends_the_run(run: Run, tmp_path: Path, fails: str, last: str) -> None:
    done = run(FAILS=fails, WAITS="test-scenes")
    assert done.returncode != 0
    assert called(tmp_path) == STEPS[: STEPS.index(last) + 1]
    over = fails in ("test-guest", "build-real", "test-real", "native", "bench")
    assert ("what the guest says" in done.stdout) == over
    assert "== seconds (of)" in done.stdout


def test_what_is_beside_a_step_that_fails_ends_with_it(run: Run, tmp_path: Path) -> None:
    done = run(FAILS="test-scenes", WAITS="test-scenes", LASTS="yes")
    assert done.returncode != 0
    pid = int((tmp_path / "pid").read_text())
    ends = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < ends:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
