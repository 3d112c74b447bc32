# SPDX-License-Identifier: Apache-2.0
"""Pod reviews over TLS as API servers send them, in a process of their own.

``python -m benchmarks.admission_load PORT --rate 500 --seconds 10`` asks on connections that stay,
``/mutate-pod`` and ``/validate-pod`` in turn about pods that differ, and prints JSON: how many were
answered, refused, and each latency in seconds. Without a rate each connection asks on and on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from itertools import count, cycle
from typing import Any

from benchmarks.admission_cluster import PROFILES, QUOTAS, team
from koord.controllers.webhook.framework.webhook_table import MUTATE_POD, VALIDATE_POD
from tests.controllers.webhook.reviews import review

CONNECTIONS = 8
_BODIES = 512
_QUOTA_NAME = "quota.scheduling.koordinator.sh/name"


def bodies(quota_count: int = QUOTAS) -> Iterator[tuple[str, bytes]]:
    """Path and body of reviews; each second pod is as a profile makes it.

    Args:
        quota_count: among how many quotas the pods are.
    """
    parents = QUOTAS // 50
    for number in range(_BODIES):
        new = pod()
        meta = new["metadata"]
        meta["name"], meta["namespace"] = f"web-{number:05d}", team(number)
        quota = f"quota-{parents + number % min(quota_count, QUOTAS - parents):04d}"
        meta["labels"] |= {"job": f"j{number % PROFILES}", _QUOTA_NAME: quota}
        path = VALIDATE_POD if number % 2 else MUTATE_POD
        if path == VALIDATE_POD:
            _as_admitted(new, number)
        asked = review(pod=new, name=meta["name"], namespace=meta["namespace"])
        yield path, json.dumps(asked).encode()


def _as_admitted(new: dict[str, Any], number: int) -> None:
    new["metadata"]["labels"] |= {
        "koordinator.sh/qosClass": "BE", "koordinator.sh/priority": "1000",
        "by": f"profile-{number % PROFILES:03d}",
    }  # fmt: skip
    amounts = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
    new["spec"] |= {"priority": 5500, "priorityClassName": "koord-batch",
                    "schedulerName": "koord-scheduler"}  # fmt: skip
    for container in new["spec"]["containers"]:
        container["resources"] = {"requests": amounts, "limits": amounts}


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


class Load:
    """Requests on connections that stay.

    Attributes:
        latencies: seconds, of each that was answered.
        refused: how many answers did not allow.
    """

    def __init__(self, port: int, requests: list[bytes]) -> None:
        self._port, self._requests = port, cycle(requests)
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self.latencies: list[float] = []
        self.refused = 0

    async def closed(self, seconds: float) -> None:
        """Each connection asks again once it is answered."""
        ends = time.perf_counter() + seconds

        async def one() -> None:
            line = await self._open()
            while time.perf_counter() < ends:
                await self._ask(line, time.perf_counter())
            line[1].close()

        await asyncio.gather(*(one() for _ in range(CONNECTIONS)))

    async def paced(self, rate: float, seconds: float) -> None:
        """So many a second, whatever the answers do: one waits for a line that is free."""
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            free.put_nowait(await self._open())
        began = time.perf_counter()

        async def one(due: float) -> None:
            line = await free.get()
            await self._ask(line, due)
            free.put_nowait(line)

        async with asyncio.TaskGroup() as tasks:
            for number in count():
                due = began + number / rate
                if due > began + seconds:
                    break
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                # From here: a client that was not run is no latency of the server.
                tasks.create_task(one(max(due, time.perf_counter())))

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)

    async def _ask(
        self, line: tuple[asyncio.StreamReader, asyncio.StreamWriter], since: float
    ) -> None:
        reader, writer = line
        writer.write(next(self._requests))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(size)
        self.latencies.append(time.perf_counter() - since)
        self.refused += b'"allowed":true' not in answer.replace(b" ", b"")


def _request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--rate", type=float, default=0.0, help="a second; 0 for as many as go")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--quotas", type=int, default=QUOTAS, help="that the pods are among")
    parser.add_argument("--validate-only", action="store_true")
    told = parser.parse_args()
    requests = [
        _request(path, body)
        for path, body in bodies(told.quotas)
        if path == VALIDATE_POD or not told.validate_only
    ]
    load = Load(told.port, requests)
    if told.rate:
        asyncio.run(load.paced(told.rate, told.seconds))
    else:
        asyncio.run(load.closed(told.seconds))
    print(json.dumps({"refused": load.refused, "latencies": sorted(load.latencies)}))


if __name__ == "__main__":
    main()
