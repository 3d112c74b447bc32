# SPDX-License-Identifier: Apache-2.0
"""Large and absurd objects of one tenant: the scheduler goes on, and another's pod is bound.

What held when it was attacked, each as it was tried.
"""

from __future__ import annotations

import asyncio

import pytest

from koord.base.documents import Document
from koord.kube.errors import ApiError
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.documents import pod

PARENT = "quota.scheduling.koordinator.sh/parent"
QUOTA = "quota.scheduling.koordinator.sh/name"
GANG = "gang.scheduling.koordinator.sh/"
_QUIET_SECONDS = 30.0


def _terms(count: int) -> Document:
    apart = [
        {"labelSelector": {"matchLabels": {f"k{n}": "x"}}, "topologyKey": f"t{n}"}
        for n in range(count // 2)
    ]
    wished = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"n{n}", "operator": "Exists"}]}}
        for n in range(count - count // 2)
    ]
    return {
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wished},
        }
    }


def _containers(count: int) -> Document:
    return {"containers": [{"name": f"c{n}", "image": "i"} for n in range(count)]}


def _ports(count: int) -> Document:
    ports = [{"containerPort": 1 + n, "hostPort": 1 + n} for n in range(count)]
    return {"containers": [{"name": "c", "image": "i", "ports": ports}]}


def _amounts(amount: str) -> Document:
    asked = {"cpu": amount, "memory": amount}
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": asked}}]}


SPECS: dict[str, Document] = {
    "800 affinity terms": _terms(800),
    "10,000 tolerations": {
        "tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(10_000)]
    },
    "10,000 containers": _containers(10_000),
    "10,000 ports": _ports(10_000),
    "largest amounts": _amounts("9223372036854775807"),
    "smallest amounts": _amounts("1n"),
    "amounts beyond 64 bits": _amounts("9" * 300),
    "amounts with exponents": _amounts("1e18"),
}


REFUSED = {"amounts beyond 64 bits"}


async def _taken(history: History, document: Document) -> bool:
    """Whether the API server takes it; if not, nobody else meets it."""
    try:
        await history.client.create(document)
    except ApiError:
        return False
    return True


async def check_others_are_served(history: History) -> None:
    """A pod of somebody else is bound, and the scheduler runs."""
    await history.client.create(pod("good", "plain", 1, {}))
    await asyncio.sleep(_QUIET_SECONDS)
    found = {each["metadata"]["name"]: each for each in await history.list("Pod")}
    assert found["good"]["spec"].get("nodeName")
    task = history._task
    assert task is not None
    assert not task.done()


@pytest.mark.parametrize("name", SPECS)
def test_a_pod_of(name: str) -> None:
    async def story(history: History) -> None:
        await history.add_node(False)
        hostile: Document = pod("bad", "plain", 1, {})
        hostile["spec"] |= SPECS[name]
        assert await _taken(history, hostile) is (name not in REFUSED)
        await check_others_are_served(history)

    live(story)


def _quota(name: str, parent: str) -> Document:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "default", "labels": {PARENT: parent}},
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": "4"}},
    }


@pytest.mark.parametrize(
    "parents",
    [
        {"a": "a"},
        {"a": "b", "b": "a"},
        {f"q{n}": f"q{(n + 1) % 50}" for n in range(50)},
        {f"q{n}": f"q{n + 1}" for n in range(3000)},
        {f"q{n + 1}": f"q{n}" for n in range(3000)},
    ],
    ids=["own parent", "two in a circle", "fifty in a circle", "3,000 levels", "from the top"],
)
def test_quotas(parents: dict[str, str]) -> None:
    async def story(history: History) -> None:
        await history.add_node(False)
        for name, parent in parents.items():
            assert await _taken(history, _quota(name, parent))
        await history.client.create(pod("inside", "plain", 1, {QUOTA: next(iter(parents))}))
        await check_others_are_served(history)

    live(story)


def test_600_gangs_of_a_billion() -> None:
    async def story(history: History) -> None:
        await history.add_node(False)
        for number in range(600):
            member = pod(f"m-{number}", "plain", 1, {})
            member["metadata"]["annotations"] |= {
                f"{GANG}name": f"g{number}", f"{GANG}min-available": "1000000000",
            }  # fmt: skip
            await history.client.create(member)
        await check_others_are_served(history)
        bound = [each for each in await history.list("Pod") if each["spec"].get("nodeName")]
        assert [each["metadata"]["name"] for each in bound] == ["good"]

    live(story)
