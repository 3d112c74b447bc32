# SPDX-License-Identifier: Apache-2.0
"""The unit of the proxy: what systemd says of it, and what the proxy makes of its command line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from koord.cli.daemons.runtime_proxy import parse
from tests.deploy.chart_files import ROOT
from tests.deploy.units import PROXY, proxy_command


def test_the_proxy_takes_its_arguments() -> None:
    program, *arguments = proxy_command()
    assert Path(program).name == "koord-runtime-proxy"
    options, _ = parse(arguments)
    assert options.runtime_path() == "/run/containerd/containerd.sock"


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """On a host that has the program, with or without units of the runtime and the kubelet."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    program = tmp_path / proxy_command()[0].lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_bytes(b"")
    program.chmod(0o755)
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    for name in ("sysinit.target", "basic.target", "shutdown.target", "multi-user.target"):
        (units / name).write_text("[Unit]\nDefaultDependencies=no\n", encoding="utf-8")
    shutil.copy(PROXY, units)
    call = ["systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", PROXY.name]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_guide_shows_it() -> None:
    lines = PROXY.read_text(encoding="utf-8").splitlines()
    shown = "\n".join(line for line in lines if not line.startswith("#"))
    assert shown in (ROOT / "docs/guide-runtime.md").read_text(encoding="utf-8")
