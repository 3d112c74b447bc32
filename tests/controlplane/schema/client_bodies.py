# SPDX-License-Identifier: Apache-2.0
"""Bodies in protobuf as kubectl sends them, beside the same objects as kubectl writes them in JSON.

``python -m tests.controlplane.schema.client_bodies`` records them anew into
``golden/client_bodies.json``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from pathlib import Path
from typing import Any

from koord.base.clock import SystemClock
from koord.controlplane.authorization.account_tokens import AccountTokens
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.frontends.http import HttpServer
from koord.controlplane.server import Server
from koord.controlplane.storage.watch import WatchCursor
from koord.kube.transport.messages import Request, Response
from tests.real.binaries import find

FILE = Path(__file__).parent / "golden" / "client_bodies.json"
COMMANDS = (
    "namespace n",
    "configmap c --from-literal=a=b --from-literal=empty=",
    "secret generic s --from-literal=a=b",
    "secret docker-registry d --docker-username=u --docker-password=p --docker-server=r.test",
    "deployment d --image=a:1 --image=b:2 --replicas=0",
    "deployment e --image=a:1 --port=80 -- sleep 1",
    "service clusterip c --tcp=80:8080 --tcp=81",
    "service clusterip h --clusterip=None",
    "service nodeport n --tcp=80:http",
    "service externalname e --external-name=a.test",
    "quota q --hard=pods=1 --scopes=BestEffort",
    "quota r --hard=cpu=1,memory=1Gi",
    "priorityclass p --value=-5 --description=low --preemption-policy=Never",
    "priorityclass zero --value=0",
    "job j --image=a:1 -- sleep 1",
    "cronjob c --image=a:1 --schedule=@hourly --restart=Never",
    "poddisruptionbudget b --selector=app=a --min-available=50%",
    "poddisruptionbudget c --selector=app=a,tier=x --max-unavailable=0",
    "role r --verb=get,list --resource=pods,deployments.apps --resource-name=a",
    "rolebinding r --role=r --serviceaccount=n:a --group=g",
    "clusterrole c --verb=get --non-resource-url=/metrics",
    "clusterrole a --aggregation-rule=a=b",
    "clusterrolebinding c --clusterrole=c --user=u",
    "serviceaccount a",
)

Golden = dict[str, dict[str, Any]]


class _Recorder:
    """Stands before a server and keeps the bodies that are posted."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.authorizer = server.authorizer
        self.posted: list[bytes] = []

    async def handle(self, request: Request) -> Response | WatchCursor:
        if request.method == "POST":
            self.posted.append(request.body)
        return await self._server.handle(request)


async def record() -> Golden:
    """What kubectl sends, by command line: the ``body`` in base64 and the ``document``."""
    found: Golden = {}
    async with EmbeddedControlPlane(Options(seed=1)) as plane:
        recorder = _Recorder(plane.server)
        tokens = AccountTokens(b"key", plane.server.reader, SystemClock())
        front = HttpServer(recorder, "127.0.0.1", 0, None, None, tokens)  # type: ignore[arg-type]
        await front.start()
        try:
            for command in COMMANDS:
                printed = await _kubectl(front.url, command, "--dry-run=client", "--output=json")
                recorder.posted.clear()
                await _kubectl(front.url, command, "--validate=false")
                (body,) = recorder.posted
                found[command] = {
                    "body": base64.b64encode(body).decode(),
                    "document": json.loads(printed),
                }
        finally:
            await front.stop()
    return found


async def _kubectl(server: str, command: str, *options: str) -> bytes:
    # Options come first, for what follows "--" is the container's.
    with tempfile.TemporaryDirectory() as home:
        process = await asyncio.create_subprocess_exec(
            str(find("kubectl")), "create", f"--server={server}", *options, *command.split(),
            env={"HOME": home}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output


def text(golden: Golden) -> str:
    """The text of the file."""
    return json.dumps(golden, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(asyncio.run(record())), encoding="utf-8")
