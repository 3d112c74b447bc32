# SPDX-License-Identifier: Apache-2.0
"""The client against servers: the embedded one, in process and over HTTPS, and a real one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.api import KINDS, ConfigMap, Deployment, Lease, Namespace, Node, ObjectMeta, Pod
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.errors import ApiError, causes_of
from koord.kube.patches import Patch
from koord.kube.requests.retry import on_conflict
from koord.kube.transport.config import ClusterConfig
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request
from tests.kube.harness import run

PODS = next(kind for kind in KINDS if kind.name == "Pod")
CONFIG_MAPS = next(kind for kind in KINDS if kind.name == "ConfigMap")
_numbers = itertools.count(1)

Work = Callable[[Client, str], Awaitable[Any]]
Does = Callable[[Work], Any]


@asynccontextmanager
async def embedded_over_https(folder: Path) -> AsyncIterator[HttpTransport]:
    async with EmbeddedControlPlane(Options(port=0)) as plane:
        path = folder / "kubeconfig"
        path.write_text(plane.kubeconfig)
        transport = HttpTransport(await asyncio.to_thread(load_cluster_config, path))
        try:
            yield transport
        finally:
            await transport.close()


@pytest.fixture(params=["in process", "https", pytest.param("real", marks=pytest.mark.real)])
def does(request: pytest.FixtureRequest, tmp_path: Path) -> Does:
    """Runs a piece of work with a client of a server and a namespace of its own."""
    name = f"client-{next(_numbers)}"
    path = request.getfixturevalue("real_plane").kubeconfig if request.param == "real" else None

    async def with_client(transport: Any, work: Work) -> Any:
        client = Client(transport, requests_per_second=None)
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
        try:
            return await work(client, name)
        finally:
            await client.delete(Namespace, name)

    async def main(work: Work) -> Any:
        if request.param == "in process":
            async with EmbeddedControlPlane() as plane:
                return await with_client(plane.transport(), work)
        if request.param == "https":
            async with embedded_over_https(tmp_path) as transport:
                return await with_client(transport, work)
        transport = HttpTransport(load_cluster_config(path))
        try:
            return await with_client(transport, work)
        finally:
            await transport.close()

    return lambda work: run(main(work))


def config_map(namespace: str, name: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def pod(namespace: str, name: str = "p", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}]}]},
    }


async def refusal(call: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value


def test_an_object_comes_and_goes(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        made = await client.create(config_map(namespace, k="1"))
        assert (made.kind, made.api_version, made.data) == ("ConfigMap", "v1", {"k": "1"})
        assert made.metadata.uid
        taken = await refusal(client.create(config_map(namespace)))
        assert (taken.http_status, taken.reason) == (409, "AlreadyExists")
        got = await client.get(ConfigMap, "a", namespace)
        assert got == made
        got.data["k"] = "2"
        stored = await client.update(got)
        assert stored.data == {"k": "2"}
        stale = await refusal(client.update(got))
        assert (stale.http_status, stale.reason) == (409, "Conflict")
        other = await refusal(client.delete(ConfigMap, "a", namespace, uid="another"))
        assert other.http_status == 409
        await client.delete(
            ConfigMap, "a", namespace, uid=made.metadata.uid,
            resource_version=stored.metadata.resource_version,
        )  # fmt: skip
        gone = await refusal(client.get(ConfigMap, "a", namespace))
        assert (gone.http_status, str(gone)) == (
            404, 'the API server refused: configmaps "a" not found',
        )  # fmt: skip

    does(work)


def test_a_name_is_made(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        metadata = ObjectMeta(generate_name="made-", namespace=namespace)
        made = await client.create(ConfigMap(metadata=metadata))
        assert made.metadata.name.startswith("made-")
        tried = await client.create(config_map(namespace, "dry"), dry_run=True)
        assert tried.metadata.name == "dry"
        assert (await refusal(client.get(ConfigMap, "dry", namespace))).http_status == 404

    does(work)


def test_each_patch_type(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        made = await client.create(config_map(namespace, a="1", b="2"))
        version = made.metadata.resource_version

        async def patched(patch: Patch) -> dict[str, str]:
            return (await client.patch(ConfigMap, "a", patch, namespace)).data

        assert await patched(Patch.merge({"data": {"a": None, "c": "3"}})) == {"b": "2", "c": "3"}
        assert await patched(
            Patch.json([{"op": "test", "path": "/data/b", "value": "2"},
                        {"op": "remove", "path": "/data/b"}])
        ) == {"c": "3"}  # fmt: skip
        assert await patched(Patch.strategic({"data": {"d": "4"}})) == {"c": "3", "d": "4"}
        stale = Patch.merge({"metadata": {"resourceVersion": version}, "data": {"x": "y"}})
        assert (await refusal(patched(stale))).reason == "Conflict"

    does(work)


def test_apply_and_its_conflicts(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        applied = await client.apply(config_map(namespace, a="1"))
        assert applied.data == {"a": "1"}
        other = config_map(namespace, a="2")
        error = await refusal(client.apply(other, field_manager="other"))
        assert error.http_status == 409
        assert causes_of(error)[0].reason == "FieldManagerConflict"
        forced = await client.apply(other, field_manager="other", force=True)
        assert forced.data == {"a": "2"}

    does(work)


def test_a_document_keeps_what_koord_has_no_name_for(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        await client.create(pod(namespace))
        got = await client.get(PODS, "p", namespace)
        assert got["spec"]["containers"][0]["ports"] == [{"containerPort": 1, "protocol": "TCP"}]
        got["metadata"]["labels"] = {"x": "y"}
        stored = await client.update(got)
        assert stored["spec"]["containers"][0]["ports"]
        unknown = {**pod(namespace, "q"), "spec": {"containers": [], "nonsense": 1}}
        error = await refusal(client.create(unknown, field_validation="Strict"))
        assert error.http_status in (400, 422)
        assert "nonsense" in str(error)

    does(work)


def test_a_list_in_pages(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        for number in range(7):
            metadata = ObjectMeta(
                name=f"m{number}", namespace=namespace, labels={"even": str(number % 2 == 0)}
            )
            await client.create(ConfigMap(metadata=metadata))
        pages = [page async for page in client.pages(ConfigMap, namespace=namespace, limit=3)]
        assert sum(len(page.items) for page in pages) >= 7
        assert len({page.resource_version for page in pages}) == 1
        assert pages[0].remaining is not None
        whole = await client.list(ConfigMap, namespace=namespace, limit=2)
        assert [item.metadata.name for item in whole.items] == [
            item.metadata.name for page in pages for item in page.items
        ]
        even = await client.list(ConfigMap, namespace=namespace, label_selector="even=True")
        assert {item.metadata.name for item in even.items} == {"m0", "m2", "m4", "m6"}
        named = await client.list(
            CONFIG_MAPS, namespace=namespace, field_selector="metadata.name=m3"
        )
        assert [item["metadata"]["name"] for item in named.items] == ["m3"]
        assert named.items[0]["kind"] == "ConfigMap"
        await client.delete_collection(ConfigMap, namespace=namespace, label_selector="even=True")
        left = await client.list(ConfigMap, namespace=namespace)
        assert not {item.metadata.name for item in left.items} & {"m0", "m2", "m4", "m6"}

    does(work)


def test_a_watch_from_a_list(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        listed = await client.list(ConfigMap, namespace=namespace)
        seen: list[tuple[str, str]] = []
        async with client.watch(
            ConfigMap, namespace=namespace, resource_version=listed.resource_version,
            field_selector="metadata.name=a",
        ) as batches:  # fmt: skip
            made = await client.create(config_map(namespace, k="1"))
            await client.create(config_map(namespace, "other"))
            await client.patch(ConfigMap, "a", Patch.merge({"data": {"k": "2"}}), namespace)
            await client.delete(ConfigMap, "a", namespace)
            async for batch in batches:
                for event in batch:
                    assert event.object is not None
                    assert event.object.metadata.uid == made.metadata.uid
                    assert event.resource_version == event.object.metadata.resource_version
                    seen.append((event.type, event.object.data["k"]))
                if len(seen) == 3:
                    break
        assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]

    does(work)


def test_large_objects_pass(does: Does) -> None:
    # Beyond 128 KiB API servers compress; beyond 64 KiB nothing comes in one piece.
    async def work(client: Client, namespace: str) -> None:
        text = "".join(f"line {number}\n" for number in range(50_000))
        listed = await client.list(ConfigMap, namespace=namespace)
        watch = client.watch(
            ConfigMap, namespace=namespace, resource_version=listed.resource_version
        )
        async with watch as batches:
            await client.create(config_map(namespace, "large", text=text))
            (event, *_) = await anext(batches)
        assert event.object is not None
        assert event.object.data["text"] == text
        assert (await client.get(ConfigMap, "large", namespace)).data["text"] == text
        items = (await client.list(ConfigMap, namespace=namespace)).items
        assert text in {item.data.get("text") for item in items}

    does(work)


def test_a_watch_ends_when_told_to(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        types: list[str] = []
        async with client.watch(ConfigMap, namespace=namespace, last_seconds=1) as batches:
            async for batch in batches:
                types += [event.type for event in batch]
        assert set(types) <= {"ADDED", "BOOKMARK"}

    does(work)


def test_a_streamed_list(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        await client.create(config_map(namespace))
        async with client.watch(ConfigMap, namespace=namespace, initial_events=True) as batches:
            names: set[str] = set()
            async for batch in batches:
                names |= {event.object.metadata.name for event in batch if event.object}
                if any(event.initial_events_end for event in batch):
                    break
        assert "a" in names

    does(work)


def test_a_pod_is_bound_once(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        await client.create(pod(namespace))
        made = await client.get(Pod, "p", namespace)
        await client.bind(made, "n1")
        bound = await client.get(Pod, "p", namespace)
        assert bound.spec.node_name == "n1"
        assert (await refusal(client.bind(made, "n2"))).http_status == 409
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        change = Patch.strategic({"metadata": {"uid": made.metadata.uid}, "status": status})
        running = await client.patch(Pod, "p", change, namespace, "status")
        assert running.status.phase == "Running"
        wrong = await refusal(client.evict("p", namespace, uid="another"))
        assert wrong.http_status == 409
        await client.evict("p", namespace, uid=made.metadata.uid, grace_period_seconds=0)
        assert (await refusal(client.get(Pod, "p", namespace))).http_status == 404

    does(work)


def test_a_deployment_is_scaled(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(namespace)["spec"]}
        await client.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d", "namespace": namespace},
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
            }
        )
        scale = await client.get_scale(Deployment, "d", namespace)
        assert (scale.spec.replicas, scale.status.selector) == (1, "a=b")
        assert (await client.set_scale(Deployment, "d", 4, namespace)).spec.replicas == 4
        assert (await client.get(Deployment, "d", namespace)).spec.replicas == 4

    does(work)


def test_status_is_written_apart(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        name = f"node-{namespace}"
        node = await client.create(Node(metadata=ObjectMeta(name=name)))
        try:
            node.spec.unschedulable = True
            node.status.node_info.kernel_version = "6.1"
            stored = await client.update_status(node)
            assert stored.status.node_info.kernel_version == "6.1"
            assert not stored.spec.unschedulable
        finally:
            await client.delete(Node, name)

    does(work)


def test_what_is_invalid_names_its_fields(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        broken = {**pod(namespace), "spec": {"containers": []}}
        error = await refusal(client.create(broken))
        assert (error.http_status, error.reason) == (422, "Invalid")
        assert "spec.containers" in {cause.field for cause in causes_of(error)}

    does(work)


def test_many_writers_of_one_object(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        metadata = ObjectMeta(name="counter", namespace=namespace)
        await client.create(Lease(metadata=metadata))

        async def count() -> None:
            async def once() -> None:
                lease = await client.get(Lease, "counter", namespace)
                lease.spec.lease_transitions = (lease.spec.lease_transitions or 0) + 1
                await client.update(lease)

            await on_conflict(once, attempts=100)

        await asyncio.gather(*(count() for _ in range(8)))
        counted = await client.get(Lease, "counter", namespace)
        assert counted.spec.lease_transitions == 8

    does(work)


def test_discovery_finds_the_kinds_that_koord_knows(does: Does) -> None:
    async def work(client: Client, namespace: str) -> None:
        del namespace
        served = {(s.kind.api_version, s.kind.name): s for s in await client.discover()}
        for kind in KINDS:
            if not kind.custom:
                found = served[kind.api_version, kind.name]
                assert (found.kind.plural, found.kind.namespaced) == (kind.plural, kind.namespaced)
                assert found.kind.type_path == kind.type_path
                assert {"get", "list", "watch"} <= set(found.verbs)
        assert {"status", "binding", "eviction"} <= set(served["v1", "Pod"].subresources)
        answer = await client.request(Request("GET", "/version"))
        assert b"gitVersion" in answer.body

    does(work)


@pytest.mark.parametrize("where", ["https", pytest.param("real", marks=pytest.mark.real)])
def test_a_stranger_is_refused(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async def asked(config: ClusterConfig) -> int:
        stranger = replace(config, token="wrong", authorization="Bearer wrong", reload=None,
                           client_certificate="", client_key="")  # fmt: skip
        transport = HttpTransport(stranger)
        try:
            return (await refusal(Client(transport).list(Pod))).http_status
        finally:
            await transport.close()

    async def main() -> int:
        if where == "real":
            return await asked(
                load_cluster_config(request.getfixturevalue("real_plane").kubeconfig)
            )
        async with EmbeddedControlPlane(Options(port=0)) as plane:
            path = tmp_path / "kubeconfig"
            path.write_text(plane.kubeconfig)
            return await asked(await asyncio.to_thread(load_cluster_config, path))

    if where == "real":
        request.getfixturevalue("real_plane")
    assert run(main()) == 401
