# SPDX-License-Identifier: Apache-2.0
"""A cluster as admission sees it, in a process of its own: lists, watches, conditional writes.

``python -m benchmarks.admission_cluster FOLDER --namespaces 10000 --pods 20000`` serves over TLS
with the certificate of ``tests.controllers.webhook.reviews``, leaves a service account in FOLDER
(``token``, ``ca.crt``) and prints its port. Pods are those of ``tests.kube.pods``. On watches of
quotas comes what is patched, on others nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import tempfile
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.controllers.webhook.reviews import credentials
from tests.kube.pods import pages

PROFILES, QUOTAS = 200, 1_000
TEAMS = 40
Document = dict[str, Any]

_QUOTA_GROUP = "scheduling.sigs.k8s.io/v1alpha1"
_QUOTAS = f"/apis/{_QUOTA_GROUP}/elasticquotas"
_PREFIX = "quota.scheduling.koordinator.sh"


def team(number: int) -> str:
    """One of the namespaces that pods are in."""
    return f"team-{number % TEAMS:02d}"


def namespaces(count: int) -> Iterator[Document]:
    """Those of pods, and as many others as are wanted."""
    for number in range(count):
        name = team(number) if number < TEAMS else f"tenant-{number:05d}"
        labels = {
            "kubernetes.io/metadata.name": name, "colocation": "on",
            "cost-center": f"c{number % 97}", "owner": f"group-{number:05d}",
        }  # fmt: skip
        note = {"example.com/description": f"what {name} is for, in a sentence of its own"}
        yield {
            "metadata": {
                "name": name, "uid": f"0df28fbd-5f5f-41e8-bc74-{number:012d}",
                "resourceVersion": str(number + 1), "creationTimestamp": "2030-01-14T09:00:00Z",
                "labels": labels, "annotations": note,
            },
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        }  # fmt: skip


def profiles() -> Iterator[Document]:
    """Each for pods of one label in namespaces that take part."""
    for number in range(PROFILES):
        yield {
            "metadata": {"name": f"profile-{number:03d}", "resourceVersion": "1"},
            "spec": {
                "namespaceSelector": {"matchLabels": {"colocation": "on"}},
                "selector": {"matchLabels": {"job": f"j{number}"}},
                "qosClass": "BE", "priorityClassName": "koord-batch",
                "koordinatorPriority": 1000, "schedulerName": "koord-scheduler",
                "labels": {"by": f"profile-{number:03d}"},
            },
        }  # fmt: skip


def quotas() -> Iterator[Document]:
    """Parents and their children, on two levels below the root."""
    parents = QUOTAS // 50
    for number in range(QUOTAS):
        is_parent = number < parents
        parent = "koordinator-root-quota" if is_parent else f"quota-{number % parents:04d}"
        most = {"cpu": "1000k", "memory": "4Pi"}
        name = f"quota-{number:04d}"
        yield {
            "metadata": {
                "name": name, "namespace": team(number), "uid": f"quota-{number}",
                "resourceVersion": str(number + 1),
                "labels": {f"{_PREFIX}/parent": parent,
                           f"{_PREFIX}/is-parent": str(is_parent).lower()},
                "annotations": {f"{_PREFIX}/shared-weight": json.dumps(most)},
            },
            "spec": {"max": {**most, "kubernetes.io/batch-cpu": "1G",
                             "kubernetes.io/batch-memory": "4Pi"}, "min": {"cpu": "10"}},
        }  # fmt: skip


class ApiStub:
    """Answers for the cluster.

    Args:
        namespaces, pods: how many there are.
    """

    def __init__(self, count_of_namespaces: int, count_of_pods: int) -> None:
        self._pods = count_of_pods
        self._pages: Iterator[bytes] = iter(())
        self._version = 10_000_000
        self._quotas = {each["metadata"]["name"]: each for each in quotas()}
        self._watches: list[web.StreamResponse] = []
        batch = {"metadata": {"name": "koord-batch", "resourceVersion": "1"}, "value": 5500}
        config = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles"
        self._lists: dict[str, list[Document]] = {
            "/api/v1/namespaces": list(namespaces(count_of_namespaces)),
            "/apis/scheduling.k8s.io/v1/priorityclasses": [batch],
            config: list(profiles()),
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The answer to any request."""
        path = request.path
        if request.method == "PATCH":
            return await self._patched(request)
        if request.method != "GET" or "webhookconfigurations" in path:
            return _told({"kind": "Status", "reason": "NotFound", "code": 404}, 404)
        if request.query.get("watch"):
            return await self._watched(request)
        if path == "/api/v1/pods":
            return self._page(request)
        items = list(self._quotas.values()) if path == _QUOTAS else self._lists.get(path, [])
        version = str(self._version)
        return _told({"metadata": {"resourceVersion": version}, "items": items})

    def _page(self, request: web.Request) -> web.Response:
        if not request.query.get("continue"):
            self._pages = pages(self._pods)
        return web.Response(body=next(self._pages), content_type="application/json")

    async def _watched(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        if request.path == _QUOTAS:
            self._watches.append(stream)
        await asyncio.Event().wait()
        return stream

    async def _patched(self, request: web.Request) -> web.Response:
        """A merge patch of a quota's annotations, on condition of its version."""
        quota = self._quotas[request.path.rpartition("/")[2]]
        meta, change = quota["metadata"], json.loads(await request.read())["metadata"]
        if change["resourceVersion"] != meta["resourceVersion"]:
            return _told({"kind": "Status", "reason": "Conflict", "code": 409}, 409)
        self._version += 1
        meta["annotations"].update(change["annotations"])
        meta["resourceVersion"] = str(self._version)
        whole = {"apiVersion": _QUOTA_GROUP, "kind": "ElasticQuota", **quota}
        event = json.dumps({"type": "MODIFIED", "object": whole}).encode() + b"\n"
        for stream in self._watches:
            await stream.write(event)
        return _told(whole)


def _told(document: Document, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(
        status=status, body=json.dumps(document).encode(), content_type="application/json"
    )


def server_context() -> ssl.SSLContext:
    """Shows the certificate for ``localhost``."""
    _, key, chain = credentials()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as both:
        both.write(key + chain)
        both.flush()
        context.load_cert_chain(both.name)
    return context


async def _serve(folder: Path, stub: ApiStub) -> None:
    (folder / "token").write_text("nobody-asks")
    (folder / "ca.crt").write_bytes(credentials()[0])
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context()).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--namespaces", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=20_000)
    told = parser.parse_args()
    asyncio.run(_serve(told.folder, ApiStub(told.namespaces, told.pods)))


if __name__ == "__main__":
    main()
