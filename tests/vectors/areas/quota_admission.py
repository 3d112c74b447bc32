# SPDX-License-Identifier: Apache-2.0
"""Pods that are charged to one quota together, while others charge it too."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.meta import ResourceList
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys, quotas
from koord.base.errors import KoordError
from koord.controllers.webhook.options import WebhookOptions
from koord.controllers.webhook.quota_admission import QuotaAdmission
from tests.controllers.webhook.api_server import PREFIX, Client, Replica, Server, request
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

    from koord.controllers.webhook.framework.admission_decision import AdmissionDecision

SEED = 20281
COVERAGE: dict[str, str] = {}

_UNREADABLE = "unreadable"
_NAMES = ["cpu", "memory", "kubernetes.io/batch-cpu", "nvidia.com/gpu", "example.com/other"]


def inputs(draw: random.Random) -> list[Json]:
    """A quota, pods, and what others charge before the first writes."""
    return [_case(draw) for _ in range(500)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    server = Server()
    server.put(codec.convert(case["quota"], ElasticQuota, "quota"))
    options = WebhookOptions(quota_update_max_retries=case["retries"])
    replica = server.replica(gates="EnableQuotaAdmission=true", options=options)
    client = _Contended(replica, case["conflicts"])
    object.__setattr__(replica.given, "client", client)
    admission = QuotaAdmission(replica.given)
    replica.catch_up()
    pods = [codec.convert(each, Pod, "pod") for each in case["pods"]]
    told = asyncio.run(_all(admission, pods))
    stored = server.get(ElasticQuota, "q", "d")
    return {"told": told, "used": _used(stored), "writes": client.tries}


def pair(case: Json, theirs: Json) -> tuple[Json, Json]:
    """An annotation that cannot be read is told in each one's own words."""
    told = [_UNREADABLE if "invalid character" in each else each for each in theirs["told"]]
    return case, {**theirs, "told": told}


async def _all(admission: QuotaAdmission, pods: list[Pod]) -> list[str]:
    asks = [admission.admit(each, None, request("CREATE", each, kind="Pod")) for each in pods]
    found = await asyncio.gather(*asks)
    return [_told(each) for each in found]


def _told(decision: AdmissionDecision) -> str:
    if decision.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return "conflict"
    return _UNREADABLE if "expected JSON" in decision.message else decision.message


class _Contended(Client):
    """Somebody else charges the quota before each of the first writes."""

    def __init__(self, replica: Replica, conflicts: list[Json]) -> None:
        super().__init__(replica)
        self._conflicts = list(conflicts)
        self.tries = 0

    async def patch(
        self, target: type, name: str, patch: Any, namespace: str = "", **_: Any
    ) -> Any:
        self.tries += 1
        if self._conflicts:
            server = self._replica.server
            quota = server.get(ElasticQuota, name, namespace)
            used = quotas.amounts(quota, keys.QUOTA_CHILD_REQUEST)
            more = codec.convert(self._conflicts.pop(0), ResourceList, "conflict")
            for each, amount in more.items():
                used[each] = used[each] + amount if each in used else amount
            text = codec.to_json(used).decode()
            changed = codec.convert(codec.to_document(quota), ElasticQuota, "quota")
            changed.metadata.annotations[keys.QUOTA_CHILD_REQUEST] = text
            server.put(changed)
        return await super().patch(target, name, patch, namespace)


def _used(quota: ElasticQuota) -> Json:
    try:
        used = quotas.amounts(quota, keys.QUOTA_CHILD_REQUEST)
    except KoordError:
        return "unreadable"
    return {name: str(amount) for name, amount in used.items() if amount}


def _amount(draw: random.Random, name: str, most: int) -> Any:
    number = draw.randint(0, most)
    if name == "cpu":
        return draw.choice([number, f"{number * 250}m"])
    return f"{number}Gi" if name == "memory" else number


def _list(draw: random.Random, most: int, share: float = 0.6) -> Json:
    return {name: _amount(draw, name, most) for name in _NAMES if draw.random() < share}


def _container(draw: random.Random, number: int) -> Json:
    return {"name": f"c{number}", "resources": {"requests": _list(draw, 3, 0.5)}}


def _pod(draw: random.Random, number: int) -> Json:
    spec: dict[str, Any] = {
        "containers": [_container(draw, at) for at in range(draw.randint(1, 2))]
    }
    if draw.random() < 0.3:
        spec["initContainers"] = [_container(draw, 9)]
        if draw.random() < 0.4:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if draw.random() < 0.2:
        spec["overhead"] = {"cpu": "250m"}
    metadata: dict[str, Any] = {
        "name": f"p{number}",
        "namespace": "d",
        "labels": {PREFIX + "name": "q"},
    }
    status = {}
    if draw.random() < 0.1:
        status["phase"] = draw.choice(["Succeeded", "Failed", "Pending", "Running"])
    if draw.random() < 0.1:
        metadata["deletionTimestamp"] = draw.choice(
            ["1969-01-01T00:00:00Z", "2999-01-01T00:00:00Z"]
        )
        metadata["deletionGracePeriodSeconds"] = 30
    return {"metadata": metadata, "spec": spec, "status": status}


def _case(draw: random.Random) -> Json:
    annotations: dict[str, str] = {}
    if draw.random() < 0.6:
        annotations[PREFIX + "child-request"] = codec.to_json(_list(draw, 4, 0.4)).decode()
    if draw.random() < 0.4:
        annotations[PREFIX + "admission"] = codec.to_json(_list(draw, 8, 0.5)).decode()
    if draw.random() < 0.04:
        annotations[PREFIX + draw.choice(["child-request", "admission"])] = "x"
    most = _list(draw, 12, 0.7) if draw.random() < 0.95 else {"example.com/other": 3}
    metadata = {"name": "q", "namespace": "d", "annotations": annotations}
    quota = {"metadata": metadata, "spec": {"max": most}}
    conflicts = [_list(draw, 1, 0.3) for _ in range(draw.choice([0, 0, 0, 1, 1, 2, 5]))]
    if any(annotations.get(PREFIX + word) == "x" for word in ("child-request", "admission")):
        conflicts = []
    pods = [_pod(draw, number) for number in range(draw.randint(1, 6))]
    retries = draw.choice([0, 3, 3, 10])
    return {"quota": quota, "pods": pods, "conflicts": conflicts, "retries": retries}


def _keeps_others(case: Json, theirs: Json, ours: Json) -> Json:
    """After a conflict the original drops what is used of resources that max does not name."""
    if not case["conflicts"] or not isinstance(ours["used"], dict):
        return theirs
    names = case["quota"]["spec"]["max"]
    kept = {name: amount for name, amount in ours["used"].items() if name not in names}
    return {**theirs, "used": {**theirs["used"], **kept}}


DIFFERENCES = {
    "quota-admission-keeps-others": Difference(
        "what is used of resources that max does not name stays where a write conflicts",
        adjusted=_keeps_others,
    ),
}
