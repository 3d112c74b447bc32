# SPDX-License-Identifier: Apache-2.0
"""What a bundle has of agents that answer, refuse, or are another's."""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path
from typing import Any

from aiohttp import web

from koord.cli.commands.bundle.agent_files import agent_files
from koord.cli.commands.bundle.archive import Bundle
from koord.kube.transport.config import ClusterConfig
from tests.cli.commands.bundle.planted_secrets import MARK, secret
from tests.kube.transport.tls import Authority

STATUS = {
    "node": "n1", "ready": True, "environment": {"PASSWORD": secret("environment")},
    "files": [{"value": secret("file")}],
    "failures": [{"resource": "oom_score_adj", "error": f"--token {secret('flag')} refused"}],
    "runtime": {
        "way": "NRI", "socket": "/run/nri.sock", "lastUnknownPod": secret("pod"),
        "calls": [{"method": "CreateContainer", "count": 7, "payload": secret("call")}],
        "hookServer": {"serving": False, "error": "no proxy is there", "pods": secret("pods")},
    },
}  # fmt: skip


def agent(name: str, address: str, port: int) -> dict[str, Any]:
    served = {"name": "https-metrics", "containerPort": port}
    ports = [{"name": "health", "containerPort": 1}, *([served] if port else [])]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "koordlet", "ports": ports}]},
        "status": {"podIP": address},
    }


async def asked(folder: Path, trusted: bool, bundle: Bundle) -> list[str]:
    """Fills a bundle from agents of which one serves; the tokens that this one was shown."""
    for name in ("own", "other"):
        (folder / name).mkdir()
    shown: list[str] = []

    async def status(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization", ""))
        return web.Response(text=json.dumps(STATUS))

    application = web.Application()
    application.router.add_get("/status", status)
    runner = web.AppRunner(application)
    await runner.setup()
    own, other = (Authority(folder / name) for name in ("own", "other"))
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=own.server_context(ask=False))
    await site.start()
    port = runner.addresses[0][1]
    config = ClusterConfig(
        "https://127.0.0.1:1",
        ca=str((own if trusted else other).ca),
        authorization="Bearer shown-to-the-cluster",
    )
    pods = [agent("koordlet-a", "127.0.0.1", port), agent("koordlet-b", "127.0.0.1", 0)]
    try:
        await agent_files(bundle, [*pods, agent("web", "127.0.0.1", port)], config)
    finally:
        await runner.cleanup()
    return shown


def written(bundle: Bundle, folder: Path) -> dict[str, Any]:
    file = folder / "bundle.tar.gz"
    bundle.write(file, "b")
    with tarfile.open(file) as archive:
        return {
            each.name: read.read().decode()
            for each in archive
            if (read := archive.extractfile(each)) is not None
        }


def test_an_agent_is_asked_and_its_status_kept_by_the_list(tmp_path: Path) -> None:
    bundle = Bundle(16 << 20)
    assert asyncio.run(asked(tmp_path, True, bundle)) == ["Bearer shown-to-the-cluster"]
    files = written(bundle, tmp_path)
    told = json.loads(files["b/agents/koordlet-a.json"])
    assert told["node"] == "n1"
    assert told["failures"][0]["resource"] == "oom_score_adj"
    assert not set(told) & {"environment", "files"}
    assert told["runtime"] == {
        "way": "NRI", "socket": "/run/nri.sock",
        "calls": [{"method": "CreateContainer", "count": 7}],
        "hookServer": {"serving": False, "error": "no proxy is there"},
    }  # fmt: skip
    assert MARK not in "".join(files.values())
    assert [each.partition(":")[0] for each in bundle.problems] == ["agents/koordlet-b"]


def test_no_token_is_shown_to_a_port_of_another_authority(tmp_path: Path) -> None:
    bundle = Bundle(16 << 20)
    assert asyncio.run(asked(tmp_path, False, bundle)) == []
    assert bundle.names == []
    assert "certificate" in bundle.problems[0]
