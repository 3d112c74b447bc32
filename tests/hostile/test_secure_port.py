# SPDX-License-Identifier: Apache-2.0
"""The secure port: TLS, and the API server's word on who asks and what that user may."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.cli.commands.explain.component_query import SCHEDULER, AnswerError, answer
from koord.cli.process.secure_port import open_secure_port
from koord.kube.daemon.delegation import AccessReviewError, Delegation, User
from koord.kube.daemon.secure_port import SecurePort
from koord.kube.daemon.secure_port_options import SecurePortOptions
from koord.kube.errors import TransportError
from koord.kube.transport.messages import Request, Response
from tests.hostile.test_doors import Daemon
from tests.real.certificates import Authority

PROMETHEUS = "system:serviceaccount:monitoring:prometheus"
# Who may what, as RBAC would say: verb and path.
RIGHTS = {
    PROMETHEUS: {("get", "/metrics")},
    "reader": {("get", "/metrics"), ("get", "/debug/queue")},
    "writer": {("put", "/debug/flags/s")},
}
TOKENS = {"t-prometheus": PROMETHEUS, "t-reader": "reader", "t-writer": "writer"}


class Reviewer:
    """An API server that reviews; it notes what it was asked, and fails if told to.

    Attributes:
        asked: the body of each review.
        status: of its answers.
        lost: whether it cannot be reached.
        gate: holds answers back until it is set.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status = 201
        self.lost = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, request: Request) -> Response:
        body = json.loads(request.body)
        self.asked.append(body)
        await self.gate.wait()
        if self.lost:
            raise TransportError("no way")
        spec, status = body["spec"], {}
        if request.path == "/apis/authentication.k8s.io/v1/tokenreviews":
            name = TOKENS.get(spec["token"])
            status = {"authenticated": name is not None}
            if name is not None:
                status["user"] = {
                    "username": name, "uid": "u1", "groups": ["system:authenticated"],
                    "extra": {"authentication.kubernetes.io/pod-name": ["p"]},
                }  # fmt: skip
        elif request.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews":
            asked = spec["nonResourceAttributes"]
            may = (asked["verb"], asked["path"]) in RIGHTS.get(spec["user"], set())
            status = {"allowed": may}
        return Response(self.status, json.dumps({**body, "status": status}).encode())

    async def open(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        raise AssertionError("it is the caller's")


def _no_other(kubeconfig: str) -> Any:
    raise AssertionError(kubeconfig)


class Served:
    """A daemon with a secure port, on loopback."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.authority = Authority.create(folder, "authority")
        self.certificate, self.key = self.authority.issue("server", server=True)
        self.reviewer, self.clock = Reviewer(), VirtualClock()
        told = SecurePortOptions(
            tls_cert_file=str(self.certificate), tls_private_key_file=str(self.key), **options
        )
        secure = SecurePort("127.0.0.1", told, self.reviewer, _no_other, self.clock)
        self.daemon = Daemon(secure=secure, metrics_paths=("/all-metrics",))

    def client_tls(self, *certificate: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if certificate:
            context.load_cert_chain(*certificate)
        return context

    async def ask(
        self, method: str, path: str, token: str = "", certificate: tuple[Path, ...] = ()
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = self.daemon.endpoints.advertised_url + path
        assert url.startswith("https://127.0.0.1:")
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, url, headers=headers, ssl=self.client_tls(*certificate)
            ) as answer,
        ):
            return answer.status, await answer.text()


def served(folder: Path, test: Callable[[Served], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        made = Served(folder, **options)
        await made.daemon.endpoints.start()
        try:
            await test(made)
        finally:
            await made.daemon.endpoints.stop()

    asyncio.run(run())


def test_who_asks_gets_what_rbac_gives(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        expected = {
            ("GET", "/debug/queue", ""): 401,
            ("GET", "/metrics", ""): 401,
            ("GET", "/what", ""): 401,
            ("GET", "/metrics", "nonsense"): 401,
            ("GET", "/healthz", ""): 200,
            ("GET", "/readyz/ping", "nonsense"): 200,
            ("GET", "/metrics", "t-prometheus"): 200,
            ("GET", "/all-metrics", "t-prometheus"): 200,
            ("GET", "/debug/queue", "t-prometheus"): 403,
            ("PUT", "/debug/flags/s", "t-prometheus"): 403,
            ("GET", "/debug/queue", "t-reader"): 200,
            ("PUT", "/debug/flags/s", "t-reader"): 403,
            ("GET", "/debug/queue", "t-writer"): 403,
            ("PUT", "/debug/flags/s", "t-writer"): 200,
        }
        found = {asked: (await it.ask(*asked))[0] for asked in expected}
        assert found == expected
        assert it.daemon.flags == 1
        _, text = await it.ask("PUT", "/debug/flags/s", "t-reader")
        assert json.loads(text) == {"message": 'user "reader" cannot put path "/debug/flags/s"'}

    served(tmp_path, test)


def test_the_reviews_say_who_asks_for_what(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        await it.ask("GET", "/all-metrics", "t-prometheus")
        token, access = it.reviewer.asked
        assert token["spec"] == {"token": "t-prometheus"}
        assert access["spec"] == {
            "user": PROMETHEUS, "uid": "u1", "groups": ["system:authenticated"],
            "extra": {"authentication.kubernetes.io/pod-name": ["p"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }  # fmt: skip

    served(tmp_path, test)


def test_answers_are_kept_for_their_time(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        counts = []
        for seconds in (0.0, 9.0, 2.0):
            it.clock.advance(seconds)
            for _ in range(3):
                assert (await it.ask("GET", "/metrics", "t-prometheus"))[0] == 200
                assert (await it.ask("GET", "/metrics", "nonsense"))[0] == 401
            counts.append(len(it.reviewer.asked))
        assert counts == [3, 3, 6]

    served(tmp_path, test)


def test_where_the_api_server_cannot_be_asked_nobody_gets_in(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        it.reviewer.lost = True
        assert (await it.ask("GET", "/metrics", "t-prometheus"))[0] == 503
        it.reviewer.lost, it.reviewer.status = False, 403
        status, text = await it.ask("GET", "/metrics", "t-prometheus")
        assert (status, "create tokenreviews: HTTP status 403" in text) == (503, True)
        assert (await it.ask("GET", "/readyz"))[0] == 200
        # It is not kept that it failed.
        it.reviewer.status = 201
        assert (await it.ask("GET", "/metrics", "t-prometheus"))[0] == 200

    served(tmp_path, test)


def test_paths_may_be_left_open(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        assert [
            (await it.ask(method, path))[0]
            for method, path in (
                ("GET", "/metrics"), ("GET", "/debug/queue"), ("PUT", "/debug/flags/s"),
                ("GET", "/all-metrics"),
            )
        ] == [200, 200, 401, 401]  # fmt: skip

    served(tmp_path, test, authorization_always_allow_paths="/metrics,/debug/*")


def test_a_certificate_of_the_clients_authority_is_a_user(tmp_path: Path) -> None:
    clients = Authority.create(tmp_path, "clients")

    async def test(it: Served) -> None:
        reader = clients.issue("reader", organization="team")
        assert (await it.ask("GET", "/debug/queue", certificate=reader))[0] == 200
        assert it.reviewer.asked[-1]["spec"]["groups"] == ["team", "system:authenticated"]
        stranger = it.authority.issue("reader", organization="team")
        with pytest.raises(aiohttp.ClientError):
            await it.ask("GET", "/debug/queue", certificate=stranger)

    served(tmp_path, test, client_ca_file=str(clients.certificate))


def test_without_an_authority_of_clients_certificates_count_for_nothing(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        reader = it.authority.issue("reader")
        assert (await it.ask("GET", "/debug/queue", certificate=reader))[0] == 401

    served(tmp_path, test)


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        async def serial() -> str:
            port = int(it.daemon.endpoints.advertised_url.rpartition(":")[2])
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=it.client_tls(), server_hostname="127.0.0.1"
            )
            found: str = writer.get_extra_info("peercert")["serialNumber"]
            writer.close()
            await writer.wait_closed()
            return found

        first = await serial()
        it.authority.issue("server", server=True)
        os.utime(it.certificate, ns=(1, 1))
        assert await serial() == first
        it.clock.advance(61)
        renewed = await serial()
        assert renewed != first
        # Half of a renewal leaves what there is.
        it.key.write_text("")
        it.clock.advance(61)
        assert await serial() == renewed

    served(tmp_path, test)


def test_of_other_machines_the_plain_port_answers_health_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 127.0.0.2 stands for an address that others reach.
    for module in ("endpoints", "origins"):
        monkeypatch.setattr(
            f"koord.kube.daemon.{module}.is_loopback", lambda host: host == "127.0.0.1"
        )

    async def run() -> None:
        daemon = Daemon(host="127.0.0.2")
        await daemon.endpoints.start()
        found = []
        try:
            async with aiohttp.ClientSession() as session:
                for path in ("/healthz", "/readyz/ping", "/metrics", "/debug/queue", "/what"):
                    url = daemon.endpoints.url + path
                    # Who lies about the host gets no further.
                    async with session.get(url, headers={"Host": "127.0.0.1"}) as answer:
                        found.append(answer.status)
                async with session.put(daemon.endpoints.url + "/debug/flags/s") as answer:
                    found.append(answer.status)
        finally:
            await daemon.endpoints.stop()
        assert found == [200, 200, 403, 403, 403, 403]
        assert daemon.flags == 0

    asyncio.run(run())


def test_who_waits_for_the_same_review_shares_it_and_floods_are_refused() -> None:
    async def run() -> None:
        reviewer = Reviewer()
        reviewer.gate.clear()
        asking = Delegation(reviewer, reviewer, SecurePortOptions(), VirtualClock())
        same = [asyncio.create_task(asking.user("t-reader")) for _ in range(200)]
        others = [asyncio.create_task(asking.user(f"{n}")) for n in range(200)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        same[0].cancel()
        await asyncio.sleep(0)
        reviewer.gate.set()
        users = await asyncio.gather(*same[1:])
        assert {user.name for user in users if user} == {"reader"}
        refused = await asyncio.gather(*others, return_exceptions=True)
        assert len(reviewer.asked) == 32
        assert sum(isinstance(each, AccessReviewError) for each in refused) == 200 - 31

    asyncio.run(run())


def test_what_is_kept_has_a_limit() -> None:
    async def run() -> None:
        reviewer, clock = Reviewer(), VirtualClock()
        asking = Delegation(reviewer, reviewer, SecurePortOptions(), clock)
        for number in range(1500):
            assert not await asking.allows(User(f"u{number}"), "get", "/metrics")
        assert len(asking._rights._kept) == 1024

    asyncio.run(run())


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"secure_port": 70_000}, "--secure-port: got 70000, expected a whole number"),
        ({"secure_port": 1}, "--secure-port: got 1, expected --tls-cert-file and"),
        ({"secure_port": 1, "tls_cert_file": "/no/c", "tls_private_key_file": "/no/k"},
         "--tls-cert-file: got '/no/c', expected a file of PEM"),
        ({"authorization_always_allow_paths": "metrics"},
         "--authorization-always-allow-paths: got 'metrics', expected paths that begin with /"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_line(told: dict[str, Any], said: str) -> None:
    with pytest.raises(KoordError) as refused:
        SecurePortOptions(**told).check_secure_port()
    assert str(refused.value).startswith(said)


def test_what_is_no_certificate_is_one_line(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path, "a")
    certificate, key = authority.issue("server", server=True)
    options = SecurePortOptions(
        secure_port=1, tls_cert_file=str(certificate), tls_private_key_file=str(key)
    )
    assert open_secure_port("::", options, Reviewer(), VirtualClock()).host == "::"
    assert open_secure_port("127.0.0.1", options, Reviewer(), VirtualClock()).host == "0.0.0.0"
    assert open_secure_port("::", SecurePortOptions(), Reviewer(), VirtualClock()) is None
    key.write_text("nothing")
    with pytest.raises(KoordError, match=r"--tls-cert-file: .* readable PEM"):
        SecurePort("127.0.0.1", options, Reviewer(), _no_other, VirtualClock())
    bad = dataclasses.replace(options, tls_private_key_file=str(certificate))
    with pytest.raises(KoordError, match="--tls-cert-file"):
        SecurePort("127.0.0.1", bad, Reviewer(), _no_other, VirtualClock())


def _kubeconfig(folder: Path, authority: Authority, token: str) -> Path:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": "https://127.0.0.1:1", "certificate-authority": str(authority.certificate),
        }}],
        "users": [{"name": "u", "user": {"token": token}}],
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return path


def test_explain_shows_its_token_to_who_the_clusters_authority_vouches_for(tmp_path: Path) -> None:
    async def test(it: Served) -> None:
        url = it.daemon.endpoints.advertised_url
        reader = _kubeconfig(tmp_path, it.authority, "t-reader")
        assert await answer(SCHEDULER, url, reader, "/debug/queue") == ["default/web-0"]
        prometheus = _kubeconfig(tmp_path, it.authority, "t-prometheus")
        with pytest.raises(AnswerError, match=r"cannot get path .* kubectl port-forward"):
            await answer(SCHEDULER, url, prometheus, "/debug/queue")
        it.reviewer.asked.clear()
        it.clock.advance(61)
        stranger = _kubeconfig(tmp_path, Authority.create(tmp_path, "stranger"), "t-reader")
        with pytest.raises(ConnectionError, match="its certificate is not the cluster's"):
            await answer(SCHEDULER, url, stranger, "/debug/queue")
        assert it.reviewer.asked == []

    served(tmp_path, test)
