# SPDX-License-Identifier: Apache-2.0
"""A scheduler against an API server over HTTPS, for tests that end with what users see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from koord.api import definitions
from koord.api.kinds.registry import KINDS, Kind
from koord.base.clock import SystemClock
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request

T = TypeVar("T")
PATIENCE_SECONDS = 30.0
Document = dict[str, Any]


class Cluster:
    """What a test does with it."""

    def __init__(self, client: Client, app: App) -> None:
        self.client = client
        self.app = app

    async def apply(self, document: Document) -> Document:
        """Creates an object as a user's file has it."""
        kind = _kind(document)
        meta = document["metadata"]
        namespace = meta.get("namespace", "default") if kind.namespaced else ""
        made: Document = await self.client.create(
            {**document, "metadata": {**meta, **({"namespace": namespace} if namespace else {})}}
        )
        return made

    async def get(self, kind: str, name: str, namespace: str = "default") -> Document:
        """An object, whole."""
        found = next(known for known in KINDS if known.name == kind)
        return await self.client.get(found, name, namespace if found.namespaced else "")

    async def until(
        self, kind: str, name: str, holds: Callable[[Document], Any], namespace: str = "default"
    ) -> Document:
        """Waits until an object is as wanted, and gives it."""
        last: Document = {}
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    try:
                        last = await self.get(kind, name, namespace)
                    except ApiError as error:
                        if error.http_status != 404:
                            raise
                    else:
                        if holds(last):
                            return last
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{kind} {name} stays {json.dumps(last, indent=1)}") from None

    async def add_node(self, name: str, cpus: int = 16, **labels: str) -> None:
        """A node that is ready, without the taint that servers put on new ones."""
        amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
        await self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                },
            }
        )
        path = f"/api/v1/nodes/{name}"
        patch = b'{"spec":{"taints":null}}'
        content = "application/merge-patch+json"
        await self.client.request(Request("PATCH", path, body=patch, content_type=content))


@asynccontextmanager
async def running(kubeconfig: Path, *names: str) -> AsyncIterator[Cluster]:
    """koord's definitions, priority classes and scheduler on a server."""
    transport = HttpTransport(load_cluster_config(kubeconfig))
    client = Client(transport, "koord-scheduler", requests_per_second=None)
    try:
        await _install(client)
        registry = Registry()
        wish = shipped(registry, *(names or ("koord-scheduler", "default-scheduler")))
        recorder = EventRecorder(client, "koord-scheduler")
        app = App(client, wish, SystemClock(), recorder, registry=registry)
        tasks = [asyncio.create_task(app.run()), asyncio.create_task(recorder.run())]
        await app.ready()
        try:
            yield Cluster(client, app)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await transport.close()


async def _install(client: Client) -> None:
    names = [name async for name, _ in installing.install(client, definitions.crds())]
    await installing.wait_established(client, names, PATIENCE_SECONDS)
    classes = next(kind for kind in KINDS if kind.name == "PriorityClass")
    async for _ in installing.install(client, definitions.priority_classes(), classes):
        pass


def documents(path: Path) -> list[Document]:
    """All objects of a manifest."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def _kind(document: Document) -> Kind:
    return next(
        kind
        for kind in KINDS
        if kind.name == document["kind"] and document["apiVersion"] in _versions(kind)
    )


def _versions(kind: Kind) -> tuple[str, ...]:
    return (f"{kind.group}/{kind.version}" if kind.group else kind.version,)


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Runs a test's coroutine."""

    async def timed() -> T:
        async with asyncio.timeout(4 * PATIENCE_SECONDS):
            return await work()

    return asyncio.run(timed())
