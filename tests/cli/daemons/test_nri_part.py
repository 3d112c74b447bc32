# SPDX-License-Identifier: Apache-2.0
"""When koordlet serves a runtime, and what it says where it doesn't."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import koord.delivery
from koord.agent.app import Agent
from koord.agent.options import AgentOptions
from koord.cli.daemons import nri_part
from koord.cli.daemons.nri_part import NriPart
from tests.delivery.nri.test_plugin import Setting
from tests.delivery.nri.wire import FakeRuntime
from tests.kube.harness import run


class StandInAgent(SimpleNamespace):
    async def ready(self) -> None:
        await asyncio.sleep(0)


def part(folder: Path, *, dry_run: bool = False, **options: Any) -> NriPart:
    setting = Setting(folder)
    agent = StandInAgent(
        options=replace(AgentOptions(), runtime_hooks_nri_socket_path="nri.sock", **options),
        dry_run=dry_run, machine=SimpleNamespace(roots=SimpleNamespace(var_run=str(folder))),
        store=setting.store, pods=None, creation=setting.node.creation,
        restate=setting.node.reconciler.restate, recheck=lambda: None,
    )  # fmt: skip
    return NriPart(cast("Agent", agent), setting.clock)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"enable_nri_runtime_hook": False}, "--enable-nri-runtime-hook=false"),
        ({"dry_run": True}, "a dry run changes no container"),
    ],
)
def test_it_is_off_and_says_why(tmp_path: Path, more: Any, reason: str) -> None:
    found = part(tmp_path, **more)
    (tmp_path / "nri.sock").touch()
    run(found.run())
    assert found.status()["error"] == reason
    assert found.status()["way"] == "reconciler"


def test_a_package_that_is_missing_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside the table of modules an import sets this, too.
    monkeypatch.setattr(koord, "delivery", koord.delivery)
    for name in [name for name in sys.modules if name.startswith("koord.delivery")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    found = part(tmp_path)
    (tmp_path / "nri.sock").touch()
    run(found.run())
    assert "pip install 'koord[agent]'" in found.status()["error"]


def test_a_socket_that_comes_later_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nri_part, "_LOOK_SECONDS", 0.001)
    found, runtime = part(tmp_path), FakeRuntime(tmp_path / "nri.sock")

    async def story() -> None:
        serving = asyncio.ensure_future(found.run())
        await asyncio.sleep(0)
        assert found.status()["error"] == "no socket there"
        await runtime.start()
        await runtime.plugin()
        while not found.status().get("connected"):
            await asyncio.sleep(0)
        assert found.status()["way"] == "NRI"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await runtime.stop()

    run(story())
