# SPDX-License-Identifier: Apache-2.0
"""Pod creates through the embedded server, against decoding and encoding the same pod.

``python -m benchmarks.test_controlplane`` prints absolute figures.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from typing import Any

import msgspec

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.messages import Request, Stream

WATCHERS = 10
CREATES = 3_000
# One create reads, defaults, checks, names, stores and tells ten watchers; the reference only
# decodes the body and encodes what is stored.
MOST_TIMES_THE_REFERENCE = 25.0
PATH = "/api/v1/namespaces/default/pods"


def pod() -> dict[str, Any]:
    """A pod as a ReplicaSet makes it, about 1.5 KB; 2.5 KB once defaults are filled in."""
    resources = {
        "requests": {"cpu": "500m", "memory": "1Gi", "kubernetes.io/batch-cpu": "1k"},
        "limits": {"cpu": "1", "memory": "2Gi", "kubernetes.io/batch-cpu": "1k"},
    }
    owner = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7c9d8f6b5", "controller": True,
        "uid": "0c5e3c28-4a43-4c0c-9b0b-0a6e7f3a2f11", "blockOwnerDeletion": True,
    }  # fmt: skip
    web = {
        "name": "web",
        "image": "registry.test/search/web:1.42.0",
        "command": ["/bin/web", "--port=8080", "--config=/etc/web/config.yaml"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "REGION", "value": "one"},
        ],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": resources,
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
    }
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    labels = {"app": "web", "pod-template-hash": "7c9d8f6b5", "koordinator.sh/qosClass": "BE"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-7c9d8f6b5-", "namespace": "default", "labels": labels,
                     "ownerReferences": [owner]},
        "spec": {
            "schedulerName": "koord-scheduler",
            "serviceAccountName": "default",
            "containers": [web, {"name": "proxy", "image": "registry.test/mesh/proxy:2.3"}],
            "volumes": [{"name": "config", "configMap": {"name": "web-config"}}],
            "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": required},
        },
    }  # fmt: skip


async def _drain(stream: Stream, counts: list[int], number: int) -> None:
    while events := await stream.read():
        counts[number] += len(events)


async def creates(count: int) -> tuple[float, bytes]:
    """CPU seconds of ``count`` creates with watchers attached, and one stored pod."""
    async with EmbeddedControlPlane(Options(seed=1)) as plane:
        transport = plane.transport()
        counts = [0] * WATCHERS
        tasks = []
        for number in range(WATCHERS):
            stream = await transport.open(Request("GET", "/api/v1/pods", (("watch", "1"),)))
            tasks.append(asyncio.create_task(_drain(stream, counts, number)))
        request = Request("POST", PATH, body=msgspec.json.encode(pod()))
        stored = (await transport.send(request)).body
        start = time.process_time()
        for _ in range(count - 1):
            answer = await transport.send(request)
            assert answer.status == 201
        while min(counts) < count:
            await asyncio.sleep(0)
        seconds = time.process_time() - start
    await asyncio.gather(*tasks)
    return seconds / (count - 1), stored


def decode_and_encode(stored: bytes, count: int) -> float:
    """CPU seconds of reading a body and writing what is stored, without any rule."""
    body, document = msgspec.json.encode(pod()), msgspec.json.decode(stored)
    start = time.process_time()
    for _ in range(count):
        msgspec.json.decode(body)
        msgspec.json.encode(document)
    return (time.process_time() - start) / count


def test_a_create_costs_little_more_than_its_text() -> None:
    ratios = []
    for _ in range(3):
        seconds, stored = asyncio.run(creates(CREATES))
        ratios.append(seconds / decode_and_encode(stored, CREATES))
        if ratios[-1] < MOST_TIMES_THE_REFERENCE:
            return
    raise AssertionError(f"times the reference: {ratios}")


def main() -> None:
    """Prints creates a second and memory a pod."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, stored = asyncio.run(creates(count))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    reference = decode_and_encode(stored, count)
    print(f"in process, {WATCHERS} watchers: {1 / seconds:,.0f} creates a CPU second, "
          f"{seconds / reference:.1f} times decode and encode")  # fmt: skip
    print(f"resident: {grown / count:.2f} KiB a pod whose text is {len(stored) / 1024:.2f} KiB")


if __name__ == "__main__":
    main()
