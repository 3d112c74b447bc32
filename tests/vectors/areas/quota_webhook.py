# SPDX-License-Identifier: Apache-2.0
"""What the webhooks of ElasticQuotas make of one request beside quotas and pods that are there."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.meta import ResourceList
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.base.errors import KoordError
from koord.controllers.webhook.elasticquotas import HANDLERS
from koord.controllers.webhook.elasticquotas.quota_state import QuotaState
from koord.controllers.webhook.framework.webhook_table import MUTATE_QUOTA, VALIDATE_QUOTA
from tests.controllers.webhook.api_server import PREFIX, Replica, Server, asked, request
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20280
COVERAGE = {
    "elasticquota/pod_check.go:hasQuotaBoundedPods": "the rest is for lists that fail",
}

_GATES = ["ElasticQuotaEnableUpdateResourceKey", "ElasticQuotaGuaranteeUsage"]
_ROOT, _SYSTEM = "koordinator-root-quota", "koordinator-system-quota"
_DEFAULT = "koordinator-default-quota"
_NAMES = ["a", "b", "c", "d"]
_NAMESPACES = ["n", "m", "a"]


def inputs(draw: random.Random) -> list[Json]:
    """A few quotas and pods, and a request about a quota, or a pod's quota."""
    return [_case(draw) for _ in range(1400)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    replica = _replica(case)
    if case["operation"] == "POD":
        return _of_pod(replica, codec.convert(case["pod"], Pod, "pod"))
    new, filled = case.get("quota"), None
    if case["operation"] == "CREATE":
        found = _ask(replica, MUTATE_QUOTA, case["operation"], new)
        if not found.allowed:
            return {"filled": None, "allowed": False}
        new = found.document or new
        labels = new["metadata"].get("labels") or {}
        filled = {
            "parent": labels.get(PREFIX + "parent", ""),
            "tree": labels.get(PREFIX + "tree-id", ""),
            "weight": _weight(new),
        }
    decided = _ask(replica, VALIDATE_QUOTA, case["operation"], new, case.get("old"))
    told: Json = {"allowed": decided.allowed}
    return {**told, "filled": filled} if case["operation"] == "CREATE" else told


def _replica(case: Json) -> Replica:
    server = Server()
    for each in case["quotas"]:
        server.put(codec.convert(each, ElasticQuota, "quota"))
    for each in case["pods"]:
        server.put(codec.convert(each, Pod, "pod"))
    replica = server.replica(gates=",".join(f"{gate}=true" for gate in case["gates"]))
    replica.prompt = True
    return replica


def _ask(replica: Replica, path: str, operation: str, new: Json, old: Json = None) -> Any:
    handler = HANDLERS[path](replica.given)
    replica.catch_up()
    if operation == "DELETE":
        new = None
    return asyncio.run(asked(handler, request(operation, new, old)))


def _of_pod(replica: Replica, pod: Pod) -> Json:
    gates = replica.given.gates
    tree = QuotaState.of(replica.given).tree
    replica.catch_up()
    only = gates.enabled("DisableDefaultQuota")
    name = tree.of_pod(pod.metadata.labels, pod.metadata.namespace, label_only=only)
    group = tree.groups.get(name) if name != _DEFAULT else None
    free = gates.enabled("SupportParentQuotaSubmitPod")
    return {"name": name, "allowed": free or group is None or not group.is_parent}


def _weight(document: Json) -> Json:
    text = (document["metadata"].get("annotations") or {}).get(PREFIX + "shared-weight")
    try:
        weight = codec.decode_json(text or "{}", ResourceList, "weight")
    except KoordError:
        return {"unreadable": text}
    return {name: str(amount) for name, amount in weight.items()}


def _amounts(draw: random.Random, most: int, share: float = 0.5) -> Json:
    found: dict[str, Any] = {"cpu": draw.choice([most, f"{most * 500}m", str(most)])}
    if draw.random() < share:
        found["memory"] = f"{most}Gi"
    if draw.random() < 0.05:
        found["koordinator.sh/gpu"] = most
    if draw.random() < 0.05:
        found.pop("cpu")
    return found


def _quota(draw: random.Random, name: str, parents: list[str]) -> Json:
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if draw.random() < 0.8:
        labels[PREFIX + "parent"] = draw.choice(parents)
    if draw.random() < 0.6:
        labels[PREFIX + "is-parent"] = draw.choice(["true", "true", "false"])
    if draw.random() < 0.3:
        labels[PREFIX + "tree-id"] = draw.choice(["t", "t", "t", "u", ""])
    for word, share in (("allow-force-update", 0.05), ("is-root", 0.1)):
        if draw.random() < share:
            labels[PREFIX + word] = "true"
    spec: dict[str, Any] = {"max": _amounts(draw, draw.choice([20, 20, 40]))}
    if draw.random() < 0.85:
        spec["min"] = _amounts(draw, draw.choice([0, 1, 2, 4, 8, 16]))
    if draw.random() < 0.05:
        spec[draw.choice(["min", "max"])] = {"cpu": draw.choice([-1, "-500m"])}
    if draw.random() < 0.3:
        weights = ['{"cpu":1}', '{"cpu":"2","memory":"1"}', "", "x", '{"cpu":-1}', "{}"]
        annotations[PREFIX + "shared-weight"] = draw.choice(weights)
    if draw.random() < 0.2:
        listed = draw.sample(_NAMESPACES, draw.randint(0, 2))
        annotations[PREFIX + "namespaces"] = json.dumps(listed)
    if draw.random() < 0.4:
        guaranteed = json.dumps(_amounts(draw, draw.choice([0, 2, 8, 20])))
        annotations[PREFIX + "guaranteed"] = guaranteed
    status = {}
    if draw.random() < 0.3:
        status["used"] = _amounts(draw, draw.choice([1, 30]))
        strict = draw.choice(['["cpu"]', '["cpu","memory"]', "[]", "x"])
        annotations[PREFIX + "max-strict-check-resource-keys"] = strict
    namespace = draw.choice(["d", "d", name])
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": spec, "status": status}


def _tree(draw: random.Random, names: list[str]) -> list[Json]:
    """Quotas that mostly go together: what is below another agrees with it."""
    made: list[Json] = []
    for name in names:
        parents = [_ROOT, *[each["metadata"]["name"] for each in made]] * 3 + ["unknown"]
        made.append(_quota(draw, name, parents))
        _agree(draw, made[-1], made)
    return made


def _agree(draw: random.Random, one: Json, others: list[Json]) -> None:
    """Brings a quota near to what its parent wants, most of the time."""
    wanted = one["metadata"]["labels"].get(PREFIX + "parent")
    above = [each for each in others if each["metadata"]["name"] == wanted and each is not one]
    if not above or draw.random() < 0.15:
        return
    parent, labels = above[0], one["metadata"]["labels"]
    if draw.random() < 0.9:
        parent["metadata"]["labels"][PREFIX + "is-parent"] = "true"
    labels.pop(PREFIX + "tree-id", None)
    tree = parent["metadata"]["labels"].get(PREFIX + "tree-id")
    if tree is not None:
        labels[PREFIX + "tree-id"] = tree
    one["spec"]["max"] = dict(parent["spec"]["max"])
    least = parent["spec"].get("min", {})
    one["spec"]["min"] = {
        name: amount for name, amount in one["spec"].get("min", {}).items() if name in least
    }


def _pods(draw: random.Random) -> list[Json]:
    found = []
    for number in range(draw.choice([0, 0, 1, 3])):
        labels = {PREFIX + "name": draw.choice(_NAMES)} if draw.random() < 0.6 else {}
        namespace = draw.choice(["x", *_NAMESPACES])
        found.append({"metadata": {"name": f"p{number}", "namespace": namespace, "labels": labels}})
    return found


def _case(draw: random.Random) -> Json:
    if draw.random() < 0.25:
        return _guaranteed(draw)
    quotas = _tree(draw, _NAMES[: draw.randint(1, 4)])
    operation = draw.choice(["CREATE", "CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "POD"])
    case = {
        "gates": [gate for gate in _GATES if draw.random() < 0.25],
        "quotas": quotas, "pods": _pods(draw), "operation": operation,
    }  # fmt: skip
    names = [each["metadata"]["name"] for each in quotas]
    if operation == "POD":
        for gate in ("DisableDefaultQuota", "SupportParentQuotaSubmitPod"):
            if draw.random() < 0.2:
                case["gates"].append(gate)
        labels = {PREFIX + "name": draw.choice([*_NAMES, "unknown"])} if draw.random() < 0.5 else {}
        namespace = draw.choice([*_NAMESPACES, "b", "c", "x"])
        case["pod"] = {"metadata": {"name": "p", "namespace": namespace, "labels": labels}}
        return case
    if operation == "CREATE":
        name = draw.choice(["e", "e", "e", "e", *names, _ROOT])
        case["quota"] = _quota(draw, name, [_ROOT, *names, *names, "unknown"])
        _agree(draw, case["quota"], quotas)
        return case
    case["old"] = draw.choice(quotas)
    if operation == "DELETE":
        if draw.random() < 0.15:
            case["old"] = {"metadata": {"name": draw.choice([_ROOT, _SYSTEM, _DEFAULT])}}
        return case
    case["quota"] = _changed(draw, case["old"], names, quotas)
    if draw.random() < 0.1:
        # What is as it was is not judged; amounts may be spelled otherwise.
        case["quota"] = json.loads(json.dumps(case["old"]))
        case["quota"]["spec"]["max"] = {
            name: f"{amount}000m" if name == "cpu" and str(amount).isdigit() else amount
            for name, amount in case["old"]["spec"]["max"].items()
        }
    if draw.random() < 0.1:
        for each in (case["quota"], case["old"], quotas[-1]):
            each["metadata"]["annotations"][PREFIX + "namespaces"] = '["n"]'
    if draw.random() < 0.05:
        for each in (case["quota"], case["old"]):
            each["metadata"] = {**each["metadata"], "name": draw.choice([_ROOT, _SYSTEM, "gone"])}
    return case


def _guaranteed(draw: random.Random) -> Json:
    """A chain of quotas of one tree, and a change of the last one's minimum."""
    gates = ["ElasticQuotaGuaranteeUsage"]
    quotas: list[Json] = []
    parent = _ROOT
    for name in ["a", "b", "c", "d"][: draw.randint(2, 4)]:
        amount = 16 if not quotas else draw.choice([0, 1, 2])
        one = _simple(name, parent, amount, draw.choice([0, 1, 2, 4, 8, 16]))
        if not quotas and draw.random() < 0.8:
            one["metadata"]["labels"][PREFIX + "is-root"] = "true"
        quotas.append(one)
        parent = name if draw.random() < 0.7 else parent if parent != _ROOT else name
    new = json.loads(json.dumps(quotas[-1]))
    new["spec"]["min"] = {"cpu": draw.choice([0, 1, 2, 3, 4])}
    if draw.random() < 0.1:
        new["metadata"]["labels"][PREFIX + "allow-force-update"] = "true"
    for each in quotas[1:-1]:
        each["spec"]["min"] = {"cpu": draw.choice([4, 8])}
    return {
        "gates": gates, "quotas": quotas, "pods": [], "operation": "UPDATE",
        "old": quotas[-1], "quota": new,
    }  # fmt: skip


def _simple(name: str, parent: str, least: int, guaranteed: int) -> Json:
    labels = {PREFIX + "parent": parent, PREFIX + "is-parent": "true", PREFIX + "tree-id": "t"}
    kept = json.dumps({"cpu": guaranteed})
    return {
        "metadata": {
            "name": name, "namespace": "d", "labels": labels,
            "annotations": {PREFIX + "guaranteed": kept},
        },
        "spec": {"min": {"cpu": least}, "max": {"cpu": 20}}, "status": {},
    }  # fmt: skip


def _changed(draw: random.Random, old: Json, names: list[str], quotas: list[Json]) -> Json:
    """The same quota with a part that is another."""
    new: Json = json.loads(json.dumps(old))
    other = _quota(draw, old["metadata"]["name"], [_ROOT, *names])
    for part in draw.sample(["min", "max", "labels", "annotations", "parent"], draw.randint(0, 2)):
        if part in ("min", "max"):
            new["spec"][part] = other["spec"].get(part, {})
        elif part == "parent":
            new["metadata"]["labels"][PREFIX + "parent"] = draw.choice([_ROOT, *names])
            _agree(draw, new, quotas)
        else:
            new["metadata"][part] = other["metadata"][part]
    return new


def _is_circle(case: Json, theirs: Json, ours: Json) -> bool:
    """The new parent is the quota itself, or somewhere below it."""
    if case["operation"] != "UPDATE" or ours["allowed"]:
        return False
    above = {
        each["metadata"]["name"]: each["metadata"]["labels"].get(PREFIX + "parent")
        for each in case["quotas"]
    }
    name = case["quota"]["metadata"]["name"]
    at, seen = case["quota"]["metadata"]["labels"].get(PREFIX + "parent"), set()
    while at is not None and at not in seen:
        if at == name:
            return True
        seen.add(at)
        at = above.get(at)
    return False


def _is_equal_amount(case: Json, theirs: Json, ours: Json) -> bool:
    """Nothing but the spelling of amounts differs."""
    if case["operation"] != "UPDATE" or not ours["allowed"]:
        return False
    old, new = (codec.convert(case[part], ElasticQuota, "q").spec for part in ("old", "quota"))
    return old == new and case["old"]["spec"] != case["quota"]["spec"]


def _is_listed_already(case: Json, theirs: Json, ours: Json) -> bool:
    """Two quotas list one namespace, and one of them is changed."""
    if case["operation"] != "UPDATE" or not ours["allowed"]:
        return False
    key, name = PREFIX + "namespaces", case["quota"]["metadata"]["name"]
    mine = json.loads(case["old"]["metadata"]["annotations"].get(key, "[]"))
    others = [
        namespace
        for each in case["quotas"]
        if each["metadata"]["name"] != name
        for namespace in json.loads(each["metadata"]["annotations"].get(key, "[]"))
    ]
    return bool(set(mine) & set(others))


DIFFERENCES = {
    "quota-circle": Difference("a quota is never below itself", covers=_is_circle),
    "quota-amounts-by-value": Difference(
        "an amount that is spelled otherwise is no change", covers=_is_equal_amount
    ),
    "quota-namespace-listed-twice": Difference(
        "a namespace that a quota lists already is not judged again", covers=_is_listed_already
    ),
}
