# SPDX-License-Identifier: Apache-2.0
"""The guide's recipe for a user of `koord up`, line by line as it stands there."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from koord.controlplane.credentials import kubeconfig
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from tests.project.code_blocks import ROOT, of
from tests.real.binaries import find
from tests.real.fixtures import need

pytestmark = pytest.mark.real


def test_a_user_by_certificate_may_what_roles_say(tmp_path: Path) -> None:
    need("kubectl")
    (recipe,) = (
        block.text
        for block in of(ROOT / "docs/guide-up.md", "sh", "parse")
        if "openssl" in block.text
    )

    async def script() -> str:
        async with EmbeddedControlPlane(Options(data=tmp_path, port=0)) as plane:
            kubeconfig.write(tmp_path / "kubeconfig", plane.kubeconfig)
            return await asyncio.to_thread(_run, recipe, tmp_path, find("kubectl").parent)

    *_, first, second = asyncio.run(script()).splitlines()
    assert (first, second) == ("yes", "no")
    assert "token" not in (tmp_path / "jane.kubeconfig").read_text()


def _run(recipe: str, folder: Path, programs: Path) -> str:
    """What the lines print; only the last may say no."""
    around = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-e", "-c", recipe], cwd=folder, env=around, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "jane" in done.stdout
    assert "analysts" in done.stdout
    return done.stdout
