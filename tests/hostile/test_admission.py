# SPDX-License-Identifier: Apache-2.0
"""What a tenant may send to the webhooks: an answer or a clean refusal, in bounded time."""

from __future__ import annotations

import asyncio
import copy
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from koord.api.codec import convert
from koord.api.kinds.cluster import Namespace
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.quota import ElasticQuota
from koord.controllers.webhook.framework.webhook_table import (
    MUTATE_POD,
    MUTATE_QUOTA,
    VALIDATE_POD,
    VALIDATE_QUOTA,
    WEBHOOKS,
)
from koord.controllers.webhook.profiles.application import MAX_PATCH_BYTES
from koord.controllers.webhook.server import https_server
from tests.controllers.webhook.reviews import TLSScene
from tests.hostile.admission_scene import Admission, Document, asked, served_over_tls, webhook_of

QUOTA = "quota.scheduling.koordinator.sh/"
POD: Document = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}  # fmt: skip
NOTES = (
    f"{QUOTA}namespaces", f"{QUOTA}shared-weight", f"{QUOTA}guaranteed", f"{QUOTA}admission",
    f"{QUOTA}child-request", "node.koordinator.sh/extended-resource-spec",
    "node.koordinator.sh/resource-amplification-ratio", "node.koordinator.sh/raw-allocatable",
    "koord.sh/claimed-minimums", "koord.sh/last-charges",
    "scheduling.koordinator.sh/device-allocate-hint",
)  # fmt: skip
Spoil = Callable[[Document, int], None]


def _labels(pod: Document, size: int) -> None:
    pod["metadata"]["labels"] = {f"k{i}": "v" for i in range(size)}


def _annotation(pod: Document, size: int) -> None:
    pod["metadata"]["annotations"] = {"a": "x" * 20 * size}


def _nested_texts(pod: Document, size: int) -> None:
    pod["metadata"]["annotations"] = dict.fromkeys(NOTES, "[" * size)


def _containers(pod: Document, size: int) -> None:
    amounts = {"cpu": "1", "kubernetes.io/batch-cpu": "1"}
    one = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    pod["spec"]["containers"] = [one] * (size // 5)


def _resources(pod: Document, size: int) -> None:
    amounts = {f"example.com/r{i}": "1" for i in range(size)}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts}
    pod["spec"] |= {"min": amounts, "max": amounts}
    pod["status"] = {"allocatable": amounts}


def _numbers(pod: Document, size: int) -> None:
    amounts = {"cpu": "9" * size, "memory": "1e9999", "kubernetes.io/batch-cpu": "-1E"}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    pod["spec"] |= {"min": amounts, "max": amounts, "priority": 10**30}


def _terms(pod: Document, size: int) -> None:
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a"]}]}
    required = {"nodeSelectorTerms": [term] * (size // 3)}
    pod["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }


def _namespaces(pod: Document, size: int) -> None:
    names = json.dumps([f"n{i}" for i in range(size)])
    pod["metadata"]["annotations"] = {f"{QUOTA}namespaces": names}


def _cards(pod: Document, size: int) -> None:
    pod["spec"] = {"devices": [{"type": "gpu", "minor": i % 7} for i in range(size)]}


def _sections(pod: Document, size: int) -> None:
    pod["metadata"] = {"name": "slo-controller-config", "namespace": "koordinator-system"}
    expression = {"key": "k", "operator": "NotIn", "values": ["a"]}
    nodes = [
        {"name": f"n{i}", "nodeSelector": {"matchExpressions": [expression]}}
        for i in range(size // 20)
    ]
    pod["data"] = {"colocation-config": json.dumps({"nodeConfigs": nodes})}


def _names(pod: Document, size: int) -> None:
    del size
    pod["metadata"] |= {"name": "a\nb\x1b[31m", "namespace": "../..", "labels": {
        f"{QUOTA}name": "__proto__", f"{QUOTA}parent": "a\r\nX: y", f"{QUOTA}tree-id": "\u202e",
        "koordinator.sh/qosClass": "BE\x00", "koordinator.sh/priority-class": "%s%n{0}",
    }}  # fmt: skip


SPOILS: list[Spoil] = [
    _labels, _annotation, _nested_texts, _containers, _resources, _numbers, _terms, _namespaces,
    _cards, _sections, _names,
]  # fmt: skip


def spoiled(spoil: Spoil, size: int) -> Document:
    pod = copy.deepcopy(POD)
    spoil(pod, size)
    return pod


def cost(admission: Admission, spoil: Spoil, size: int) -> float:
    """CPU seconds of all webhooks' reviews, each judged for what it says."""
    total = 0.0
    document = spoiled(spoil, size)
    other = copy.deepcopy(document)
    other["metadata"].setdefault("labels", {})["more"] = "yes"

    async def all_of_them() -> None:
        nonlocal total
        # All but those that are set aside, as that of bindings nobody judges.
        for webhook in (each for each in WEBHOOKS if each.path in admission.service.paths):
            for operation in webhook.operations:
                new = None if operation == "DELETE" else other
                old = None if operation == "CREATE" else document
                body = asked(webhook, new, old, str(operation))
                begun = time.process_time()
                answer = await asyncio.wait_for(admission.answer(webhook.path, body), 60)
                total += time.process_time() - begun
                judge(answer)

    asyncio.run(all_of_them())
    return total


def judge(answer: Document) -> None:
    if "text" in answer:
        assert answer["status"] == 400, answer
        assert answer["text"].isprintable()
    elif not answer["allowed"]:
        message = answer["status"]["message"]
        assert message.isprintable(), message[:200]
        assert len(message) < 1_000_000


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda each: each.__name__)
def test_what_it_costs_grows_as_what_is_sent(spoil: Spoil) -> None:
    """Four times as much costs at most seven times as much, whoever is asked about it."""
    admission = Admission()
    small = min(cost(admission, spoil, 500) for _ in range(3))
    large = min(cost(admission, spoil, 2_000) for _ in range(2))
    assert large <= 7 * small + 0.02, (small, large)


def profile(name: str, **spec: Any) -> ClusterColocationProfile:
    return convert({"metadata": {"name": name}, "spec": spec}, ClusterColocationProfile, name)


def test_thousands_of_profiles_and_quotas_of_others_cost_a_pod_nothing() -> None:
    def admission(number: int) -> Admission:
        made = Admission()
        made.put(convert({"metadata": {"name": "default"}}, Namespace, "default"))
        for i in range(number):
            selector = {"matchLabels": {"mine": f"{i}"}}
            made.put(profile(f"p{i}", selector=selector, labels={"a": "b"}))
            meta = {"name": f"q{i}", "namespace": f"t{i}"}
            made.put(convert({"metadata": meta, "spec": {"max": {"cpu": "1"}}}, ElasticQuota, "q"))
        return made

    async def reviews(of: Admission) -> float:
        body = asked(webhook_of(MUTATE_POD), POD), asked(webhook_of(VALIDATE_POD), POD)
        begun = time.process_time()
        for _ in range(200):
            for path, text in zip((MUTATE_POD, VALIDATE_POD), body, strict=True):
                assert (await of.answer(path, text))["allowed"]
        return time.process_time() - begun

    few, many = admission(10), admission(3_000)
    quiet = min(asyncio.run(reviews(few)) for _ in range(3))
    crowded = min(asyncio.run(reviews(many)) for _ in range(3))
    assert crowded <= 2 * quiet, (quiet, crowded)


@pytest.mark.parametrize(
    "specs",
    [
        [{"annotationKeysMapping": {"long": f"k{i}"}} for i in range(60)],
        [{"labelKeysMapping": {"long": f"k{i}"}} for i in range(60)],
        [{"patch": {"metadata": {"annotations": {f"a{i}": "x" * 200_000}}}} for i in range(60)],
        [{"patch": {"spec": {"containers": [{"name": f"c{i}", "image": "x" * 100_000}]}}}
         for i in range(60)],
    ],
)  # fmt: skip
def test_profiles_that_blow_a_pod_up_are_skipped(specs: list[Document]) -> None:
    admission = Admission()
    admission.put(convert({"metadata": {"name": "default"}}, Namespace, "default"))
    for number, spec in enumerate(specs):
        admission.put(profile(f"p{number:03}", selector={}, **spec))
    admission.put(profile("q", selector={}, labels={"good": "yes"}))
    pod = copy.deepcopy(POD)
    pod["metadata"] |= {"annotations": {"long": "x" * 100_000}, "labels": {"long": "y" * 100_000}}
    tracemalloc.start()
    try:
        found = asyncio.run(admission.answer(MUTATE_POD, asked(webhook_of(MUTATE_POD), pod)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["allowed"]
    assert found["warnings"][0].startswith("not applied: ClusterColocationProfile p0")
    assert len(found["patch"]) <= 2 * MAX_PATCH_BYTES
    assert peak <= 40 * MAX_PATCH_BYTES, peak


def test_a_good_tenant_is_answered_beside_hostile_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https_server, "READ_SECONDS", 1.0)
    admission = Admission()
    admission.put(convert({"metadata": {"name": "default"}}, Namespace, "default"))
    paths = (MUTATE_POD, VALIDATE_POD, MUTATE_QUOTA, VALIDATE_QUOTA)
    bodies: list[bytes] = [
        b"", b"no JSON", b"\xff\xfe", b"[]", b"[" * 200_000, b" " * (3 * 1024 * 1024),
        b'{"a":"' + b"x" * 3 * 1024 * 1024 + b'"}', asked(webhook_of(MUTATE_POD), [1]),
        asked(webhook_of(MUTATE_POD), {"kind": "Node"}),
        json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v9"}).encode(),
        json.dumps({"kind": "Pod"}).encode(),
    ]  # fmt: skip
    bodies += [asked(webhook_of(MUTATE_POD), spoiled(spoil, 2_000)) for spoil in SPOILS]

    async def script(scene: TLSScene) -> None:
        done = asyncio.Event()
        statuses: set[int] = set()

        async def attack(number: int) -> None:
            while not done.is_set():
                for body in [*bodies[number:], *bodies[:number]]:
                    if done.is_set():
                        return
                    status, text = await scene.post(paths[number % len(paths)], body)
                    statuses.add(status)
                    assert len(text) < 1_000_000

        async def dawdle() -> None:
            while not done.is_set():
                at = await asyncio.open_connection("localhost", scene.server.port, ssl=scene.tls)
                at[1].write(b"POST /mutate-pod HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
                await at[0].read()
                at[1].close()

        async def good(number: int) -> float:
            begun = time.perf_counter()
            for _ in range(number):
                for path in (MUTATE_POD, VALIDATE_POD):
                    status, text = await scene.post(path, asked(webhook_of(path), POD))
                    assert status == 200, text
                    assert json.loads(text)["response"]["allowed"]
            return (time.perf_counter() - begun) / number

        async def best() -> float:
            return min([await good(5) for _ in range(6)])

        longest = 0.0
        for body in bodies:
            begun = time.perf_counter()
            await scene.post(MUTATE_POD, body)
            longest = max(longest, time.perf_counter() - begun)
        quiet = await best()
        async with asyncio.TaskGroup() as tasks:
            for number in range(4):
                tasks.create_task(attack(number))
            for _ in range(8):
                tasks.create_task(dawdle())
            await asyncio.sleep(0)
            crowded = await good(6)
            done.set()
        assert statuses <= {200, 400, 408}, statuses
        again = await best()
        assert again <= 8 * quiet, (quiet, crowded, again)
        # Two reviews, each behind those of all attackers.
        assert crowded <= 3 * 2 * 5 * longest, (quiet, crowded, longest)

    served_over_tls(script, admission)
