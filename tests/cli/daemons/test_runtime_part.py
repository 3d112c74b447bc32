# SPDX-License-Identifier: Apache-2.0
"""Which way hooks come where there is NRI, a proxy, both or neither, and what is said of it."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import pytest

import koord.delivery
from koord.agent.app import Agent
from koord.agent.options import AgentOptions
from koord.cli.daemons import hook_server_part, nri_part
from koord.cli.daemons.runtime_part import RuntimePart
from koord.delivery.hooks.messages import HOOKS, method_of
from tests.delivery.hooks.test_service import of_container
from tests.delivery.nri.test_plugin import Setting, batch
from tests.delivery.nri.wire import FakeRuntime
from tests.kube.harness import run


class StandInAgent(SimpleNamespace):
    async def ready(self) -> None:
        await asyncio.sleep(0)


def part(folder: Path, *, dry_run: bool = False, **options: Any) -> tuple[RuntimePart, Setting]:
    setting = Setting(folder / "node")
    roots = SimpleNamespace(
        var_run=str(folder), hook_socket=str(folder / "k.sock"), hook_config=str(folder / "hooks.d")
    )
    agent = StandInAgent(
        options=replace(AgentOptions(), runtime_hooks_nri_socket_path="nri.sock", **options),
        dry_run=dry_run, machine=SimpleNamespace(roots=roots), store=setting.store, pods=None,
        creation=setting.node.creation, restate=setting.node.reconciler.restate,
        recheck=lambda: None,
    )  # fmt: skip
    made = RuntimePart(cast("Agent", agent), setting.clock)
    assert agent.runtime_status == made.status
    return made, setting


async def quota(folder: Path) -> int:
    """What a proxy is answered of a batch container that was made with 70 ms."""
    async with grpc.aio.insecure_channel(f"unix:{folder / 'k.sock'}") as channel:
        call = channel.unary_unary(method_of("PreCreateContainer"))
        answer = await call(of_container(batch()).SerializeToString(), timeout=20)
    made = HOOKS.ContainerResourceHookResponse.FromString(answer)
    return int(made.container_resources.cpu_quota)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (nri_part, hook_server_part):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.001)


def test_a_proxy_that_comes_later_is_served_and_nri_before_it(tmp_path: Path) -> None:
    found, setting = part(tmp_path)
    runtime = FakeRuntime(tmp_path / "nri.sock")

    async def story() -> None:
        await setting.knows(batch())
        serving = [asyncio.ensure_future(each.run()) for each in (found.nri, found.server)]
        await asyncio.sleep(0)
        status = found.status()
        assert status["way"] == "reconciler"
        assert "no proxy is there" in status["hookServer"]["error"]
        (tmp_path / "hooks.d").mkdir()
        while not found.server.serving:
            await asyncio.sleep(0.001)
        # A directory is no proxy.
        assert found.status()["way"] == "reconciler"
        assert await quota(tmp_path) == 50_000
        status = found.status()
        assert (status["way"], status["hookServer"]["stepsAside"]) == ("hook server", False)
        told = json.loads((tmp_path / "hooks.d/koordlet.json").read_text())
        assert told["remote-endpoint"] == "/var/run/koordlet/koordlet.sock"
        assert told["runtime-hooks"] == [
            "PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources",
        ]  # fmt: skip
        await runtime.start()
        await runtime.plugin()
        while not found.nri.connected:
            await asyncio.sleep(0.001)
        status = found.status()
        assert (status["way"], status["hookServer"]["stepsAside"]) == ("NRI", True)
        assert await quota(tmp_path) == 0  # an answer that changes nothing
        for each in serving:
            each.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await runtime.stop()

    run(story())


def test_the_flags_name_stages_and_policy(tmp_path: Path) -> None:
    found, _ = part(
        tmp_path, runtime_hooks_disable_stages="PreCreateContainer,PreUpdateContainerResources",
        runtime_hooks_failure_policy="Fail", runtime_hooks_host_endpoint="/run/k.sock",
    )  # fmt: skip
    (tmp_path / "hooks.d").mkdir()

    async def story() -> None:
        serving = asyncio.ensure_future(found.server.run())
        while not found.server.serving:
            await asyncio.sleep(0.001)
        assert json.loads((tmp_path / "hooks.d/koordlet.json").read_text()) == {
            "remote-endpoint": "/run/k.sock",
            "failure-policy": "Fail",
            "runtime-hooks": ["PreRunPodSandbox"],
        }
        assert await quota(tmp_path) == 70_000
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        # Files get back what they said before when it ends, so nobody is to call it.
        assert list((tmp_path / "hooks.d").iterdir()) == []

    run(story())


def test_a_dry_run_serves_nobody(tmp_path: Path) -> None:
    found, _ = part(tmp_path, dry_run=True)
    (tmp_path / "hooks.d").mkdir()
    run(found.server.run())
    assert found.status()["hookServer"]["error"] == "a dry run changes no container"
    assert not (tmp_path / "k.sock").exists()


def test_a_package_that_is_missing_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside the table of modules an import sets this, too.
    monkeypatch.setattr(koord, "delivery", koord.delivery)
    for name in [name for name in sys.modules if name.startswith("koord.delivery")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    found, _ = part(tmp_path)
    (tmp_path / "hooks.d").mkdir()
    run(found.server.run())
    assert "pip install 'koord[delivery]'" in found.status()["hookServer"]["error"]
