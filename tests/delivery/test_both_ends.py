# SPDX-License-Identifier: Apache-2.0
"""koord's proxy asks koord's agent: what a runtime is told is what hooks want."""

from __future__ import annotations

import asyncio
from pathlib import Path

from koord.delivery.cri.messages import CRI
from koord.delivery.hooks.registration import Registration
from koord.delivery.hooks.server import AgentHookServer, ServerOptions
from koord.delivery.hooks.service import STAGES, HookServices
from tests.delivery.cri.test_hooked_calls import make_pod, sent
from tests.delivery.cri.world import create_request, make_pod_cgroup, world
from tests.delivery.hooks.test_server import running, until
from tests.delivery.hooks.test_service import ServiceSetting
from tests.delivery.nri.test_plugin import batch
from tests.kube.harness import run

KUBELET = {"cpu_period": 100_000, "cpu_quota": 70_000, "cpu_shares": 2, "oom_score_adj": 1000}


def test_a_batch_container_through_both(tmp_path: Path) -> None:
    setting = ServiceSetting(tmp_path / "node")
    folder, socket = tmp_path / "hooks.d", tmp_path / "k.sock"
    folder.mkdir()
    make_pod_cgroup(tmp_path)
    registration = Registration(folder, str(socket), "Fail", STAGES)
    node = setting.node
    services = HookServices(
        node.creation, setting.arrivals, node.reconciler.restate, setting.calls,
        lambda: setting.aside,
    )  # fmt: skip
    server = AgentHookServer(ServerOptions(socket, registration, 0.001), services)

    async def story() -> None:
        await setting.knows(batch("uid-p"))
        async with running(server), world(tmp_path) as here:
            await until(lambda: server.serving)
            await make_pod(here)
            await here.call("CreateContainer", create_request(**KUBELET))
            made = sent(here).config.linux.resources
            wanted = {**KUBELET, "cpu_quota": 50_000, "cpu_shares": 512}
            assert {name: getattr(made, name) for name in wanted} == wanted
            assert made.memory_limit_in_bytes == 1 << 30
            update = CRI.UpdateContainerResourcesRequest(container_id="c1")
            update.linux.cpu_quota = 12_345
            await here.call("UpdateContainerResources", update)
            assert sent(here, "UpdateContainerResources").linux.cpu_quota == 50_000
            assert not here.proxy.status()["hookServers"][0]["lastAnswerEmpty"]
            # NRI serves: all goes on as the kubelet wants it.
            setting.aside = True
            await here.call("CreateContainer", create_request(**KUBELET))
            made = sent(here).config.linux.resources
            assert {name: getattr(made, name) for name in KUBELET} == KUBELET
            assert here.proxy.status()["hookServers"][0]["lastAnswerEmpty"]
            methods = {call["method"]: call["failures"] for call in setting.calls.status()["calls"]}
            assert methods == dict.fromkeys(
                ("PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources"), 0
            )
        await asyncio.sleep(0)

    run(story())
