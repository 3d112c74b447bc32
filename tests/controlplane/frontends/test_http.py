# SPDX-License-Identifier: Apache-2.0
"""The server on its socket: who may come in, how much, and what becomes of nonsense."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from koord.base import faults
from koord.base.errors import KoordError
from koord.controlplane.credentials import kubeconfig
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.frontends import bodies
from koord.controlplane.frontends.bodies import BODY_LIMIT_BYTES
from koord.controlplane.storage.collection import HistoryLimits
from tests.profiles import examples

CONFIGS = "/api/v1/namespaces/default/configmaps"
Session = aiohttp.ClientSession


@asynccontextmanager
async def serving(**options: object) -> AsyncIterator[tuple[EmbeddedControlPlane, Session]]:
    async with EmbeddedControlPlane(Options(port=0, **options)) as plane:  # type: ignore[arg-type]
        config = json.loads(plane.kubeconfig)
        token = config["users"][0]["user"].get("token", "")
        context = ssl.create_default_context()
        if plane.authority:
            context = ssl.create_default_context(cadata=plane.authority.decode())
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connector = aiohttp.TCPConnector(ssl=context)
        async with Session(plane.url, headers=headers, connector=connector) as session:
            yield plane, session


def run(
    test: Callable[[EmbeddedControlPlane, Session], Awaitable[None]], **options: object
) -> None:
    async def go() -> None:
        async with serving(**options) as (plane, session):
            await test(plane, session)

    asyncio.run(go())


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_it_listens_on_loopback_alone(host: str) -> None:
    async def start() -> None:
        plane = EmbeddedControlPlane(Options(port=0, host=host))
        try:
            await plane.start()
        finally:
            await plane.stop()

    with pytest.raises(KoordError, match="loopback"):
        asyncio.run(start())


def test_without_the_token_nothing_is_told() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        for shown in ("", "Bearer", "Bearer wrong", "Basic YTpi", "Bearer \u00e9"):
            async with session.get("/api/v1/pods", headers={"Authorization": shown}) as answer:
                assert answer.status == 401
                assert (await answer.json())["reason"] == "Unauthorized"
        async with session.get("/api/v1/pods") as answer:
            assert answer.status == 200
        async with session.get("/readyz", headers={"Authorization": ""}) as answer:
            assert await answer.text() == "ok"

    run(test)


def test_components_learn_whom_to_trust() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        token = json.loads(plane.kubeconfig)["users"][0]["user"]["token"]
        for shown, known in ((token, True), (token[:-1], False), ("", False), (5, False)):
            review = {"kind": "TokenReview", "spec": {"token": shown}}
            path = "/apis/authentication.k8s.io/v1/tokenreviews"
            async with session.post(path, json=review) as answer:
                status = (await answer.json())["status"]
            assert status.get("authenticated", False) == known
            assert ("error" in status) != known
        path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        async with session.get(path) as answer:
            told = (await answer.json())["data"]
        assert plane.credentials_folder is not None
        signers = (plane.credentials_folder / "client-ca.crt").read_text()
        assert told == {"client-ca-file": signers}

    run(test)


def test_what_a_folder_tells_of_whom_to_trust_is_made_true(tmp_path: Path) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

    async def spoil(plane: EmbeddedControlPlane, session: Session) -> None:
        change = {"data": {"client-ca-file": "old", "more": "kept"}}
        kind = {"Content-Type": "application/merge-patch+json"}
        async with session.patch(path, json=change, headers=kind) as answer:
            assert answer.status == 200

    async def look(plane: EmbeddedControlPlane, session: Session) -> None:
        async with session.get(path) as answer:
            told = (await answer.json())["data"]
        assert plane.credentials_folder is not None
        signers = (plane.credentials_folder / "client-ca.crt").read_text()
        assert told == {"client-ca-file": signers, "more": "kept"}

    run(spoil, data=tmp_path / "data")
    run(look, data=tmp_path / "data")


def test_insecure_is_plain_and_open() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        assert plane.url.startswith("http://127.0.0.1:")
        async with session.get("/api/v1/pods") as answer:
            assert answer.status == 200

    run(test, insecure=True)


def test_secrets_are_for_the_owner_alone(tmp_path: Path) -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        kubeconfig.write(tmp_path / "config", plane.kubeconfig)

    (tmp_path / "config").write_text("old")
    (tmp_path / "config").chmod(0o644)
    run(test, data=tmp_path / "data")
    data = tmp_path / "data"
    private = [tmp_path / "config", data / "state.db", *(data / "pki").iterdir()]
    assert len(private) == 8
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_restart_keeps_certificates_and_token(tmp_path: Path) -> None:
    seen: list[tuple[bytes, str]] = []

    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        token = json.loads(plane.kubeconfig)["users"][0]["user"]["token"]
        seen.append((plane.authority, token))

    run(test, data=tmp_path)
    run(test, data=tmp_path)
    assert seen[0] == seen[1]


def test_metrics_tell_of_requests_objects_and_watches() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        for name in ("a", "b", "b"):
            async with session.post(CONFIGS, json={"metadata": {"name": name}}):
                pass
        watch = session.get(CONFIGS, params={"watch": "1"})
        async with watch, session.get("/metrics") as answer:
            lines = (await answer.text()).splitlines()
        assert 'apiserver_request_total{code="409",verb="POST"} 1.0' in lines
        kept = plane.store.collection("configmaps")
        assert {"default/a", "default/b"} <= set(kept.entries)
        objects = f'apiserver_resource_objects{{resource="configmaps"}} {len(kept.entries)}.0'
        assert objects in lines
        assert f'koord_controlplane_log_changes{{resource="configmaps"}} {len(kept.log)}.0' in lines
        assert "koord_controlplane_watches 1.0" in lines
        assert f"koord_controlplane_resource_version {plane.store.version}.0" in lines

    run(test)


def test_a_journal_that_takes_no_writes_is_not_ready(tmp_path: Path) -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        async def ready() -> int:
            async with session.get("/readyz") as answer:
                return answer.status

        assert await ready() == 200
        plan = faults.FaultPlan(
            1, {"controlplane.commit": faults.FaultRule(1.0, OSError("disk full"))}
        )
        with faults.inject(plan):
            async with session.post(CONFIGS, json={"metadata": {"name": "a"}}) as answer:
                assert answer.status == 500
        assert await ready() == 500
        async with session.post(CONFIGS, json={"metadata": {"name": "a"}}) as answer:
            assert answer.status == 201
        assert await ready() == 200

    run(test, data=tmp_path)


def test_bodies_are_bounded() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        async with session.post(CONFIGS, data=io.BytesIO(b" " * (BODY_LIMIT_BYTES + 1))) as answer:
            assert answer.status == 413
            assert (await answer.json())["reason"] == "RequestEntityTooLarge"

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(BODY_LIMIT_BYTES // 65_536 + 2):
                yield b" " * 65_536

        async with session.post(CONFIGS, data=endless()) as answer:
            assert answer.status == 413

    run(test)


def test_a_large_list_is_packed_if_the_client_reads_that() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        body = {"metadata": {"name": "big"}, "data": {"text": "x" * 200_000}}
        async with session.post(CONFIGS, json=body) as answer:
            assert answer.status == 201
        for accepted in ("gzip", "identity"):
            async with session.get(CONFIGS, headers={"Accept-Encoding": accepted}) as answer:
                assert answer.headers.get("Content-Encoding", "identity") == accepted
                assert (await answer.json())["items"][0]["data"] == body["data"]

    run(test)


def test_a_slow_watcher_is_let_go_and_nobody_waits_for_it() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        async with session.get(CONFIGS, params={"watch": "1"}) as watch:
            for number in range(150):
                body = {"metadata": {"name": f"n{number}"}, "data": {"text": "x" * 100_000}}
                async with session.post(CONFIGS, json=body) as answer:
                    assert answer.status == 201
            versions = []
            async for line in watch.content:
                told = json.loads(line)
                versions.append(int(told["object"]["metadata"]["resourceVersion"]))
        assert versions == list(range(versions[0], versions[0] + len(versions)))
        assert len(versions) < 150
        query = {"watch": "1", "resourceVersion": str(versions[-1])}
        async with session.get(CONFIGS, params=query) as watch:
            assert watch.status == 410, "the client lists anew"

    small = HistoryLimits(changes=16, change_bytes=1 << 20)
    run(test, limits=small)


PATHS = st.one_of(
    st.sampled_from((CONFIGS, f"{CONFIGS}/a", "/api/v1/pods", "/apis", "/openapi/v3", "/healthz",
                     "/api/v1/namespaces/default/pods/a/eviction", "/apis/apps/v1/deployments",
                     "/apis/apps/v1/namespaces/default/deployments/a/scale")),
    st.text(alphabet="/apisv1%2e.:@~\x00 é?", max_size=30).map(lambda text: "/" + text),
)  # fmt: skip
QUERIES = st.dictionaries(
    st.sampled_from(("limit", "continue", "resourceVersion", "resourceVersionMatch",
                     "labelSelector", "fieldSelector", "dryRun", "fieldValidation",
                     "fieldManager", "force", "odd")),
    st.text(max_size=8) | st.sampled_from(("1", "-1", "0", "All", "Exact", "Strict", "true")),
    max_size=3,
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("metadata", "name", "spec", "labels", "data", "kind", "apiVersion",
                             "containers", "status", "finalizers", "op", "path", "value")),
            inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip
BODIES = st.binary(max_size=30) | JSON.map(lambda value: json.dumps(value).encode())
TYPES = st.sampled_from(
    ("application/json", "application/yaml", "application/merge-patch+json", "text/plain", "",
     "application/json-patch+json", "application/strategic-merge-patch+json",
     "application/apply-patch+yaml")
)  # fmt: skip
METHODS = st.sampled_from(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"))
ACCEPTS = st.sampled_from(
    ("*/*", "application/json;as=Table;g=meta.k8s.io;v=v1", "text/html", ";;,=", "",
     "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
)  # fmt: skip
REQUESTS = st.tuples(METHODS, PATHS, QUERIES, TYPES, ACCEPTS, BODIES)


@settings(max_examples=examples(0.1))
@given(st.lists(REQUESTS, min_size=10, max_size=20))
def test_any_request_gets_a_proper_answer(requests: list[tuple[str, ...]]) -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        for method, path, query, content, accept, body in requests:
            url = URL(plane.url).with_path(path).with_query(query)
            headers = {"Content-Type": content, "Accept": accept}
            async with session.request(method, url, headers=headers, data=body) as answer:
                text = await answer.text()
                assert answer.status < 500 or answer.status == 504, (method, path, body, text)
                if answer.status >= 400 and method != "HEAD" and text != "404 page not found\n":
                    status = json.loads(text)
                    assert (status["kind"], status["code"]) == ("Status", answer.status)
        async with session.get("/api/v1/namespaces/default") as answer:
            assert answer.status == 200

    run(test, insecure=True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "rebound.example.com"}, 403),
        ({"Host": "127.0.0.1.example.com"}, 403),
        ({"Host": "[bad"}, 403),
        ({"Origin": "http://127.0.0.1:8001"}, 200),
        ({"Origin": "https://example.com"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_without_a_token_no_web_page_gets_in(headers: dict[str, str], status: int) -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        async with session.get("/api/v1/pods", headers=headers) as answer:
            assert answer.status == status
        async with session.post(CONFIGS, data=b"{}", headers=headers) as answer:
            assert (answer.status == 403) == (status == 403 or "Origin" in headers)

    run(test, insecure=True)


def test_without_a_token_a_page_of_another_port_writes_nothing() -> None:
    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        port = URL(plane.url).port
        for origin, status in (
            ("http://localhost:3000", 403),
            (f"http://127.0.0.1:{port}1", 403),
            (f"http://localhost:{port}", 403),
            (f"http://127.0.0.1:{port}", 201),
        ):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "by-a-page"}}
            headers = {"Origin": origin, "Content-Type": "application/json"}
            data = json.dumps(body).encode()
            async with session.post(CONFIGS, data=data, headers=headers) as answer:
                assert (origin, answer.status) == (origin, status)

    run(test, insecure=True)


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"GET /api/v1/pods HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
        b"POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_half_a_request_is_not_waited_for(half: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 0.05)

    async def test(plane: EmbeddedControlPlane, session: Session) -> None:
        port = URL(plane.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(half)
        async with asyncio.timeout(10):
            told = await reader.read()
        assert told[:12] in (b"", b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()
        async with session.get("/api/v1/pods") as answer:  # Whole ones are served as ever.
            await asyncio.sleep(0.1)
            assert answer.status == 200
            assert json.loads(await answer.read())["items"] == []

    run(test, insecure=True)


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    async def both() -> None:
        async with EmbeddedControlPlane(Options(port=0, insecure=True)) as plane:
            taken = Options(data=tmp_path, port=URL(plane.url).port, insecure=True)
            with pytest.raises(KoordError):
                async with EmbeddedControlPlane(taken):
                    pass
        async with EmbeddedControlPlane(Options(data=tmp_path)):  # The journal is free.
            pass

    asyncio.run(both())
