# SPDX-License-Identifier: Apache-2.0
"""Runs the comparison out of its archive; see README beside it. The standard library alone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

NAME, MACHINE = "koord-peer", platform.machine()
HERE = Path(__file__).resolve().parent


def _problem(packages: Path) -> str:
    """Why it cannot run here; empty if it can."""
    if packages.is_dir():
        return ""
    there = ", ".join(sorted(folder.name[7:] for folder in HERE.glob("python-*"))) or "none"
    return f"error: python {packages.name[7:]}: not in this archive, which has {there}"


def _versions(environment: dict[str, str]) -> list[str]:
    """Of what takes part, one line each."""
    code = "from importlib.metadata import version as v; print('koord', v('koord'))"
    calls = (
        [sys.executable, "-c", code],
        [str(HERE / "bin" / "kube-scheduler"), "--version"],
        [str(HERE / "bin" / "etcd"), "--version"],
    )
    found = []
    for call in calls:
        answer = subprocess.run(call, capture_output=True, text=True, env=environment, check=True)
        found.append(answer.stdout.splitlines()[0])
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def main() -> int:
    """Exit status of the driver; 2 where it cannot run."""
    packages = HERE / "python-{}.{}".format(*sys.version_info)
    problem = _problem(packages)
    if problem:
        print(problem, file=sys.stderr)
        return 2
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(packages), str(HERE / "driver"))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "KUBEBUILDER_ASSETS": str(HERE / "bin"),
    }
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores ({_processor()}), Python {platform.python_version()}")
    print("\n".join(_versions(environment)), flush=True)
    driver = [sys.executable, "-m", "benchmarks.peer", *sys.argv[1:]]
    return subprocess.run(driver, env=environment, cwd=HERE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
