# SPDX-License-Identifier: Apache-2.0
"""One object that does not decode must not hide the others, nor be hidden itself."""

from __future__ import annotations

import asyncio
import logging

import pytest

from koord.api import Pod
from koord.base.errors import KoordError
from koord.base.metrics import registry
from koord.kube.informers.informer import Informer, InformerMetrics
from tests.kube.fake_server import FakeServer
from tests.kube.harness import run_virtual
from tests.kube.informers.test_informer import client_of, path, running

BAD = {"containers": "none"}


def server_with(**specs: dict[str, object]) -> FakeServer:
    server = FakeServer()
    for name, spec in specs.items():
        server.put(path(name), spec=spec)
    return server


def test_a_list_has_the_others_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    metrics = registry()

    async def story() -> None:
        server = server_with(x={}, bad=BAD, z={})
        informer = Informer(client_of(server), Pod, page_size=2, metrics=InformerMetrics(metrics))
        async with running(informer):
            assert sorted(key for key, _ in informer.items()) == ["a/x", "a/z"]
            for _ in range(3):  # Lists anew, and finds the same state.
                server.put("/api/v1/namespaces/a/configmaps/other")
                server.compact()
                server.cut()
                await asyncio.sleep(60)
            server.put(path("bad"), spec={"nodeName": "mended"})
            await asyncio.sleep(1)
            mended = informer.get("a/bad")
            assert mended is not None
            assert mended.spec.node_name == "mended"

    with caplog.at_level(logging.WARNING, "koord.informer"):
        run_virtual(story())
    told = [r.koord_fields["key"] for r in caplog.records if r.message == "object not read"]
    assert told == ["a/bad"]
    assert b'koord_informer_unreadable_total{kind="Pod"} 1.0' in metrics.expose()


def test_what_is_wrong_is_warned_of_once_however_many_states_have_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where a status is written that says so."""

    async def story() -> None:
        server = server_with(bad=BAD)
        async with running(Informer(client_of(server), Pod)):
            for phase in ("Pending", "Failed"):
                server.put(path("bad"), spec=BAD, status={"phase": phase})
                await asyncio.sleep(1)
            assert told() == ["spec.containers"]
            server.put(path("bad"), spec={"nodeName": 5})
            await asyncio.sleep(1)
            assert told() == ["spec.containers", "spec.nodeName"]
            server.put(path("bad"), spec={"nodeName": "mended"})
            await asyncio.sleep(1)
            server.put(path("bad"), spec={"nodeName": 5})
            await asyncio.sleep(1)
            assert told()[2:] == ["spec.nodeName"], "a mistake that comes back is a new one"

    def told() -> list[str]:
        errors = [r.koord_fields["error"] for r in caplog.records if r.message == "object not read"]
        return [error.split(": ")[1] for error in errors]

    with caplog.at_level(logging.WARNING, "koord.informer"):
        run_virtual(story())


@pytest.mark.parametrize("lists_anew", [False, True])
def test_the_last_good_state_stays_until_the_object_goes(lists_anew: bool) -> None:
    async def story() -> None:
        server = server_with(x={"nodeName": "n"}, y={})
        informer = Informer(client_of(server), Pod)
        async with running(informer):
            server.put(path("x"), spec=BAD)
            server.put(path("y"), spec={"nodeName": "later"})
            if lists_anew:
                server.compact()
                server.cut()
            await asyncio.sleep(60)
            known, other = informer.get("a/x"), informer.get("a/y")
            assert known is not None
            assert known.spec.node_name == "n"
            assert other is not None
            assert other.spec.node_name == "later"
            told: list[tuple[str, bool]] = []
            informer.on_change(
                deleted=lambda pod, unknown: told.append((pod.spec.node_name, unknown))
            )
            server.remove(path("x"))
            await asyncio.sleep(1)
            assert informer.get("a/x") is None
            assert told == [("n", True)]
            assert informer.resource_version == str(server.version)

    run_virtual(story())


def test_who_does_not_allow_for_it_gets_the_error() -> None:
    async def story() -> None:
        server = server_with(x={}, bad=BAD)
        client = client_of(server)
        with pytest.raises(KoordError, match="containers"):
            await client.list(Pod)
        page = await anext(aiter(client.pages(Pod, lenient=True)))
        assert [unreadable.key for unreadable in page.unreadable] == ["a/bad"]
        async with client.watch(Pod, resource_version=str(server.version)) as watch:
            server.put(path("bad"), spec=BAD)
            with pytest.raises(KoordError, match="containers"):
                async for _ in watch:
                    pass

    run_virtual(story())


def test_who_asks_is_told_of_each_state_that_does_not_decode_until_it_is_mended_or_gone() -> None:
    async def story() -> None:
        server = server_with(x={}, bad=BAD, worse=BAD)
        informer = Informer(client_of(server), Pod)
        told: list[tuple[str, str]] = []
        informer.on_unreadable(
            lambda key, why: told.append((key, why.error.field if why is not None else "decodes"))
        )
        async with running(informer):
            assert sorted(told) == [("a/bad", "spec.containers"), ("a/worse", "spec.containers")]
            told.clear()
            late: list[str] = []
            informer.on_unreadable(lambda key, why: late.append(key))
            assert sorted(late) == ["a/bad", "a/worse"]
            server.put(path("bad"), spec={"nodeName": 5})
            await asyncio.sleep(1)
            server.put(path("bad"), spec={"nodeName": "mended"})
            server.remove(path("worse"))
            await asyncio.sleep(1)
            assert told == [
                ("a/bad", "spec.nodeName"), ("a/bad", "decodes"), ("a/worse", "decodes")
            ]  # fmt: skip
            assert informer.unreadable == {}, "what is gone is not remembered for ever"

    run_virtual(story())
