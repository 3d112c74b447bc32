# SPDX-License-Identifier: Apache-2.0
"""Reviews over TLS from another process: what answering one costs the server, in CPU time.

``python -m benchmarks.reviews`` prints figures for the server of admission and for a bare aiohttp
handler that decodes the same body and answers the same bytes; ``python -m benchmarks.reviews ask
PORT PATH COUNT`` is the client.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web

from koord.base.clock import SystemClock
from koord.base.supervision import Supervisor
from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
from koord.controllers.webhook.framework.admission_request import AdmissionRequest
from koord.controllers.webhook.framework.webhook_table import MUTATE_POD, WEBHOOKS
from koord.controllers.webhook.server.https_server import HTTPSServer
from koord.controllers.webhook.server.metrics import WebhookMetrics
from koord.controllers.webhook.server.review_service import ReviewService, served_paths
from koord.controllers.webhook.server.serving_certificate import ServingCertificate
from tests.controllers.webhook.reviews import credentials, review

CONNECTIONS = 8
COUNT = 2_000


class Cost(NamedTuple):
    """What one review took.

    Attributes:
        cpu_seconds: of the server's process.
        latencies: seconds as the client saw them, sorted.
    """

    cpu_seconds: float
    latencies: list[float]


class OneLabel:
    """A handler that changes one label."""

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        document = request.document()
        document["metadata"]["labels"]["koordinator.sh/qosClass"] = "BE"
        return AdmissionDecision(document=document)


def pod(containers: int = 2) -> dict[str, Any]:
    """A pod as a Deployment makes it, with what an API server adds."""
    each = {
        "image": "registry.example/web:1",
        "env": [{"name": f"V{i}", "value": "x" * 20} for i in range(10)],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
    }
    managed = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {
        "f:spec": {f"f:{i}": {} for i in range(30)}}}  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-5d4f8c7b9-abcde",
            "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"},
            "managedFields": [managed],
        },
        "spec": {"containers": [{"name": f"c{i}", **each} for i in range(containers)]},
    }


BODY = json.dumps(review(pod=pod())).encode()


async def _ours(tls: ServingCertificate, work: Callable[[int], Awaitable[Cost]]) -> Cost:
    paths = served_paths({MUTATE_POD: OneLabel()}, WEBHOOKS)
    server = HTTPSServer(tls.context, paths, lambda: None, "127.0.0.1")
    server.serve(ReviewService(paths, WebhookMetrics(), Supervisor("webhook"), SystemClock()))
    await server.start()
    try:
        return await work(server.port)
    finally:
        await server.stop()


async def _bare(tls: ServingCertificate, work: Callable[[int], Awaitable[Cost]]) -> Cost:
    patch = [{"op": "add", "path": "/metadata/labels/koordinator.sh~1qosClass", "value": "BE"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()

    async def answer(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        response = {"uid": asked["request"]["uid"], "allowed": True, "patchType": "JSONPatch",
                    "patch": encoded}  # fmt: skip
        return web.json_response({**asked, "request": None, "response": response})

    app = web.Application()
    app.router.add_post(MUTATE_POD, answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.context)
    await site.start()
    try:
        return await work(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _asked(port: int) -> Cost:
    """Has another process ask, and counts this one's time."""
    words = (sys.executable, "-m", "benchmarks.reviews", "ask", str(port), MUTATE_POD, str(COUNT))
    began = time.process_time()
    client = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await client.communicate()
    spent = time.process_time() - began
    assert client.returncode == 0
    return Cost(spent / COUNT, sorted(json.loads(out)))


def measured(ours: bool) -> Cost:
    """The cost of one side."""
    certificate = ServingCertificate()
    _, key, chain = credentials()
    certificate.show(chain, key)
    return asyncio.run((_ours if ours else _bare)(certificate, _asked))


async def _ask(port: int, path: str, count: int) -> list[float]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(BODY)}\r\n\r\n"
    ).encode()
    found: list[float] = []

    async def connection(share: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        for _ in range(share):
            began = time.perf_counter()
            writer.write(head + BODY)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            size = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
            found.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(connection(count // CONNECTIONS) for _ in range(CONNECTIONS)))
    return found


def main() -> None:
    """Prints both sides' figures, or asks."""
    if sys.argv[1:2] == ["ask"]:
        port, path, count = sys.argv[2:5]
        print(json.dumps(asyncio.run(_ask(int(port), path, int(count)))))
        return
    for name, ours in (("admission", True), ("bare aiohttp", False)):
        cost = measured(ours)
        p99 = cost.latencies[int(len(cost.latencies) * 0.99)] * 1000
        a_second = 1 / cost.cpu_seconds
        at = f"at {CONNECTIONS} connections"
        print(f"{name}: {a_second:.0f} reviews a second of CPU, p99 {p99:.1f} ms {at}")


if __name__ == "__main__":
    main()
