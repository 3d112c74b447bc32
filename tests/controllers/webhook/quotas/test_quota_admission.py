# SPDX-License-Identifier: Apache-2.0
"""Pods are charged to their quota once, and never beyond its limit."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys, quotas
from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
from koord.controllers.webhook.options import WebhookOptions
from koord.controllers.webhook.quota_admission import QuotaAdmission
from koord.controllers.webhook.quota_admission.charge_batch import retries_for
from koord.kernels.quantity import Quantity
from tests.controllers.webhook.api_server import PREFIX, Server, on_virtual_time, quota, request

ON = "EnableQuotaAdmission=true"


def pod(name: str, cpu: Any, of: str = "q", namespace: str = "default") -> Pod:
    labels = {PREFIX + "name": of} if of else {}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    document = {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container]},
    }
    return codec.convert(document, Pod, "pod")


def used(server: Server, name: str = "q") -> int:
    amounts = quotas.amounts(server.get(ElasticQuota, name, "default"), keys.QUOTA_CHILD_REQUEST)
    return amounts["cpu"].milli() if "cpu" in amounts else 0


def admission(server: Server, gates: str = ON, **options: Any) -> QuotaAdmission:
    replica = server.replica(gates=gates, options=WebhookOptions(**options))
    made = QuotaAdmission(replica.given)
    replica.catch_up()
    return made


def ask(
    server: Server, asked: QuotaAdmission, new: Pod, old: Pod | None = None, **more: Any
) -> AdmissionDecision:
    operation = "CREATE" if old is None else "UPDATE"
    given = request(operation, new, old, kind="Pod", **more)
    return on_virtual_time(server.clock, lambda: asked.admit(new, old, given))


def world(*items: Any) -> Server:
    server = Server()
    for item in items:
        server.put(item)
    return server


def test_a_pod_is_charged_until_the_quota_is_full() -> None:
    server = world(quota("q", max={"cpu": 3}))
    asked = admission(server)
    assert ask(server, asked, pod("a", 2)).allowed
    assert used(server) == 2000
    found = ask(server, asked, pod("b", "1500m"))
    assert found.message == (
        "exceeded quota: default/q, requested: cpu=1500m, used: cpu=2, limited: cpu=3"
    )
    assert ask(server, asked, pod("c", 1)).allowed
    assert used(server) == 3000


def test_the_annotation_admission_limits_in_the_place_of_max() -> None:
    server = world(quota("q", max={"cpu": 3}, admission={"cpu": 5}))
    assert ask(server, admission(server), pod("a", 5)).allowed


@pytest.mark.parametrize("name", ["koordinator-default-quota", "koordinator-system-quota",
                                  "koordinator-root-quota"])  # fmt: skip
def test_quotas_of_the_scheduler_are_not_charged(name: str) -> None:
    server = world()
    assert ask(server, admission(server), pod("a", 5, of=name)).allowed


def test_a_quota_is_one_object() -> None:
    server = world(quota("q", max={"cpu": 3}), quota("q", namespace="other", max={"cpu": 3}))
    asked = admission(server)
    assert ask(server, asked, pod("a", 1)).message == "more than one elastic quota q found"
    assert ask(server, asked, pod("a", 1, of="x")).message == "elastic quota x not found"


def test_a_quota_that_was_made_a_moment_ago_is_looked_up() -> None:
    server = world()
    asked = admission(server)
    server.put(quota("q", max={"cpu": 3}))
    assert ask(server, asked, pod("a", 1)).allowed
    assert used(server) == 1000


def test_the_namespace_decides_without_a_label() -> None:
    server = world(quota("team", namespace="team", max={"cpu": 1}),
                   quota("q", max={"cpu": 1}, namespaces=["other"]))  # fmt: skip
    asked = admission(server)
    assert not ask(server, asked, pod("a", 2, of="", namespace="team")).allowed
    assert not ask(server, asked, pod("a", 2, of="", namespace="other")).allowed
    assert ask(server, asked, pod("a", 2, of="", namespace="third")).allowed
    only = admission(server, f"{ON},DisableDefaultQuota=true")
    assert ask(server, only, pod("a", 2, of="", namespace="team")).allowed


def test_an_update_is_charged_where_the_quota_changes() -> None:
    server = world(quota("q", max={"cpu": 3}), quota("r", max={"cpu": 3}))
    old, new = pod("a", 2, of="r"), pod("a", 2)
    assert ask(server, admission(server), new, old).allowed
    assert used(server) == 0
    asked = admission(server, f"{ON},EnableQuotaAdmissionOnUpdate=true")
    assert ask(server, asked, new, new).allowed
    assert used(server) == 0
    assert ask(server, asked, new, old).allowed
    assert used(server) == 2000


def test_a_dry_run_judges_and_charges_nothing() -> None:
    server = world(quota("q", max={"cpu": 3}))
    asked = admission(server)
    assert ask(server, asked, pod("a", 2), dry_run=True).allowed
    assert not ask(server, asked, pod("a", 4), dry_run=True).allowed
    assert server.writes == 0


def test_overhead_is_charged_unless_a_gate_says_not() -> None:
    for gates, charged in ((ON, 2500), (f"{ON},ElasticQuotaIgnorePodOverhead=true", 2000)):
        server = world(quota("q", max={"cpu": 3}))
        new = pod("a", 2)
        new.spec.overhead = {"cpu": Quantity.parse("500m")}
        assert ask(server, admission(server, gates), new).allowed
        assert used(server) == charged


def test_the_gate_is_off_by_default() -> None:
    server = world(quota("q", max={"cpu": 3}))
    assert ask(server, admission(server, ""), pod("a", 4)).allowed


def test_pods_of_a_moment_are_one_write() -> None:
    server = world(quota("q", max={"cpu": 50}))
    asked = admission(server)

    async def all_at_once() -> list[AdmissionDecision]:
        pods = [pod(f"p{number}", 1) for number in range(60)]
        asks = [asked.admit(each, None, request("CREATE", each, kind="Pod")) for each in pods]
        return await asyncio.gather(*asks)

    found = on_virtual_time(server.clock, all_at_once)
    assert [each.allowed for each in found] == [True] * 50 + [False] * 10
    assert (used(server), server.writes) == (50_000, 1)


def test_a_write_whose_answer_is_lost_is_not_made_twice() -> None:
    server = world(quota("q", max={"cpu": 5}))
    asked = admission(server)
    server.lose_answers = 1
    assert ask(server, asked, pod("a", 2)).allowed
    assert (used(server), server.writes) == (2000, 1)


@pytest.mark.parametrize(
    ("charged", "most", "retries"),
    [(1, 10, 3), (2, 0, 3), (2, 10, 4), (8, 10, 6), (1000, 10, 10), (1000, 0, 3)],
)
def test_larger_batches_are_tried_more_often(charged: int, most: int, retries: int) -> None:
    assert retries_for(charged, most) == retries


def test_tries_end_and_say_so() -> None:
    server = world(quota("q", max={"cpu": 5}))
    replica = server.replica(gates=ON, options=WebhookOptions(quota_update_retry_jitter=0.4))
    asked = QuotaAdmission(replica.given)
    replica.catch_up()
    server.put_before_patch = lambda: server.put(server.get(ElasticQuota, "q", "default"))
    began = server.clock.monotonic_seconds()
    found = ask(server, asked, pod("a", 2))
    assert (found.allowed, found.status) == (False, 500)
    assert "charging the quota failed" in found.message
    assert used(server) == 0
    # Of three pauses the third would be more than the flag for all of them allows.
    assert 0.4 <= server.clock.monotonic_seconds() - began < 0.8


_step = st.tuples(st.integers(0, 1), st.integers(1, 4), st.sampled_from("qr"))


@given(
    st.integers(0, 10_000),
    st.lists(st.lists(_step, min_size=1, max_size=8), min_size=1, max_size=6),
    st.integers(0, 2),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_two_replicas_charge_each_pod_once(
    seed: int, rounds: list[Any], lost: int, fresh: bool
) -> None:
    server = world(quota("q", max={"cpu": 20}), quota("r", max={"cpu": 9}))
    options = {
        "quota_update_conflict_fresh_get": fresh, "quota_update_max_retries": 10,
        "quota_update_retry_jitter": 0.05,
    }  # fmt: skip
    both = [admission(server, **options) for _ in range(2)]
    server.draw, server.lose_answers = random.Random(seed), lost
    sure = {"q": 0, "r": 0}
    unsure = {"q": 0, "r": 0}

    async def one(replica: int, cpu: int, name: str) -> None:
        new = pod(f"p{random.Random(seed).random()}", cpu, of=name)
        found = await both[replica].admit(new, None, request("CREATE", new, kind="Pod"))
        if found.allowed:
            sure[name] += 1000 * cpu
        elif found.status == 500:
            unsure[name] += 1000 * cpu

    async def run() -> None:
        for together in rounds:
            asks = [one(*each) for each in together]
            await asyncio.gather(*asks, server.deliver(6, 0.1))
            for name, most in (("q", 20_000), ("r", 9_000)):
                assert sure[name] <= used(server, name) <= sure[name] + unsure[name]
                assert used(server, name) <= most

    on_virtual_time(server.clock, run)


def test_a_quota_that_cannot_be_read_is_told() -> None:
    wrong = quota("q", max={"cpu": 5})
    wrong.metadata.annotations[keys.QUOTA_CHILD_REQUEST] = json.dumps([1])
    server = world(wrong)
    found = ask(server, admission(server), pod("a", 1))
    assert not found.allowed
    assert f"annotations[{keys.QUOTA_CHILD_REQUEST}]" in found.message


def test_pods_and_writes_are_counted_by_outcome() -> None:
    server = world(quota("q", max={"cpu": 3}))
    replica = server.replica(gates=ON)
    asked = QuotaAdmission(replica.given)
    replica.catch_up()
    ask(server, asked, pod("a", 2))
    ask(server, asked, pod("b", 2))
    shown = replica.given.metrics.expose().decode()
    prefix = "koord_manager_webhook_quota_admission"
    for line in (
        f'{prefix}_pods_total{{outcome="admitted"}} 1.0',
        f'{prefix}_pods_total{{outcome="refused"}} 1.0',
        f'{prefix}_writes_total{{outcome="written"}} 1.0',
        f'{prefix}_writes_total{{outcome="conflict"}} 0.0',
        f"{prefix}_batch_pods_sum 1.0",
        f"{prefix}_duration_seconds_count 2.0",
    ):
        assert line in shown, line
