# SPDX-License-Identifier: Apache-2.0
"""What a real containerd does with devices and mounts: ``python -m tests.node.device_scene``."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from koord.agent.hooks.container_values import ContainerValues
from koord.agent.hooks.hook import DeviceFile
from koord.base.clock import SystemClock
from koord.delivery.nri.call_log import CallLog
from koord.delivery.nri.plugin import PluginServices
from koord.delivery.nri.plugin_loop import NriLoop, NriOptions
from tests.node.cri import CriPod
from tests.node.inside import write_figures
from tests.node.machine import NRI_SOCKET, RealNode, until

# That of /dev/null: a device that is on every machine stands in for a card.
NULL = (1, 3)
PLACE = "/dev/infiniband/rdma_cm"
_SAYS = (
    f"stat -c '%t:%T %a' {PLACE}; echo x >{PLACE} && echo written; cat /mounted; exec sleep 9999"
)


class OneAnswer:
    """Hooks that want the same of every container."""

    def __init__(self, values: ContainerValues) -> None:
        self._values = values

    def values(self, *asked: Any) -> ContainerValues:
        return self._values


async def _find(uid: str, seconds: float) -> Any:
    return SimpleNamespace(uid=uid)


def run(node: RealNode) -> dict[str, Any]:
    """All of it."""
    source = node.folder / "mounted"
    source.write_text("of the host\n", encoding="ascii")
    values = ContainerValues(
        devices=[DeviceFile(PLACE, *NULL)], mounts=[(str(source), "/mounted")], oom_score_adj=300
    )
    return asyncio.run(_with_plugin(node, values))


async def _with_plugin(node: RealNode, values: ContainerValues) -> dict[str, Any]:
    pods = SimpleNamespace(find=_find, known=lambda uid: None)
    services = PluginServices(
        cast("Any", OneAnswer(values)), cast("Any", pods), lambda uid: [], lambda: None,
        CallLog(SystemClock()),
    )  # fmt: skip
    loop = NriLoop(NriOptions(NRI_SOCKET), services, Random(0))
    serving = asyncio.ensure_future(loop.run())
    while not loop.status()["synchronized"]:
        await asyncio.sleep(0.02)
    lines = await asyncio.to_thread(_made, node)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    return {"says": lines, "calls": loop.status()["calls"]}


def _made(node: RealNode) -> list[str]:
    pod = CriPod("card", "u1", "kubepods/podu1")
    node.make_directory(pod.directory)
    sandbox = node.cri.run_pod(pod)
    container = node.cri.create(sandbox, pod, ["/bin/sh", "-c", _SAYS], cpu_shares=2)
    node.cri.start(container)

    def lines() -> list[str]:
        found = node.cri.output(pod)
        return found if len(found) == 3 else []

    found: list[str] = until("output", lines)
    node.cri.remove(sandbox, container)
    return found


if __name__ == "__main__":
    write_figures(lambda folder, _: run(RealNode(folder)))
