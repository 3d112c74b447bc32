# SPDX-License-Identifier: Apache-2.0
"""Hooks as the reconciler asks them: values of pods, containers, classes and host applications."""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

from koord.agent.hooks.builtin.batch_resource import BatchResource
from koord.agent.hooks.builtin.cpu_normalization import CPUNormalization
from koord.agent.hooks.builtin.cpuset_allocator import CPUSetAllocator
from koord.agent.hooks.builtin.group_identity import GroupIdentity
from koord.agent.hooks.options import HookOptions
from koord.agent.hooks.pod_contexts import container_context, pod_context
from koord.agent.states.pod_state import ContainerKind
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import KubeQos
from tests.vectors.agent import documents
from tests.vectors.agent.scene import node_of, reported_of, slo_of, state
from tests.vectors.area import Difference

SEED = 20265
_EACH = 160
_HOOKS: dict[str, Any] = {
    "BatchResource": BatchResource,
    "CPUNormalization": CPUNormalization,
    "GroupIdentity": GroupIdentity,
    "CPUSetAllocator": CPUSetAllocator,
}
_QUOTA = "cpu.cfs_quota_us"
_POOLS = "node.koordinator.sh/cpu-shared-pools"
_BE_POOLS = "node.koordinator.sh/be-cpu-shared-pools"
_AMOUNTS = ["1", "2", "500m", "100", "1500", "7", "1k", "0", "", "", "33"]


def inputs(rng: Random) -> list[dict[str, Any]]:
    """As many cases of each hook."""
    return [_case(rng, name) for name in _HOOKS for _ in range(_EACH)]


def answer(case: dict[str, Any]) -> object:
    """By pod, container, class and host application; ``error`` where the hook refuses."""
    on = {"BECPUManager": case["managed"]}
    hook = _HOOKS[case["hook"]](HookOptions(gate=lambda n: on.get(n, False), has=lambda _: True))
    slo = slo_of(case)
    snapshot = Snapshot(
        node=Timestamped(node_of(case), 0.0), pods=Timestamped((), 0.0), slo=Timestamped(slo, 0.0),
        topology=Timestamped(reported_of(case), 0.0),
    )  # fmt: skip
    try:
        hook.learn(snapshot)
    except KoordError:
        return {"rule": "error"}
    name = case["hook"]
    return {
        "pods": [_of_pod(hook, name, each) for each in case["pods"]],
        "classes": {
            kube.value: _told(hook.kube_qos, kube) for kube in KubeQos if name == "GroupIdentity"
        },
        "hosts": {
            each.name: _told(hook.host_application, each)
            for each in slo.host_applications
            if name in ("GroupIdentity", "CPUSetAllocator")
        },
    }


def _of_pod(hook: Any, name: str, document: dict[str, Any]) -> dict[str, Any]:
    pod = state(document)
    context = pod_context(pod)
    found = {}
    told = _told(hook.pod, context)
    # The original asks only those pods that have CPUs of their own.
    if name != "CPUSetAllocator" or told not in ({}, "error"):
        found["pod"] = told
    for each in pod.containers:
        if each.kind is ContainerKind.REGULAR and each.id and name != "GroupIdentity":
            found[each.name] = _told(hook.container, container_context(context, each))
    return found


def _told(ask: Any, about: Any) -> Any:
    try:
        answer = ask(about)
    except KoordError:
        return "error"
    if answer is None:
        return {}
    values = dict(answer.values)
    quota = values.get(_QUOTA, 0)
    if answer.quota_ratio is not None and answer.quota_ratio > 1 and quota > 0:
        values[_QUOTA] = math.ceil(quota / answer.quota_ratio)
    return values


def _case(rng: Random, hook: str) -> dict[str, Any]:
    cpus = documents.machine(rng)
    node = documents.node(rng, str(len(cpus)))
    if rng.random() < 0.7:
        ratio = rng.choice(["1.0", "1.2", "1.25", "1", "1.5", "2.37", "5", "1.01", "1.003"])
        node["metadata"]["annotations"]["node.koordinator.sh/cpu-normalization-ratio"] = ratio
    hosts = [{"name": f"h{at}", "qos": rng.choice(["LS", "LS", "BE", "LSR", ""])}
             for at in range(rng.choice([0, 1, 2]))]  # fmt: skip
    slo = {"resourceQOSStrategy": _strategy(rng), "hostApplications": hosts}
    if rng.random() < 0.8:
        policy = rng.choice(["cpuset", "cfsQuota", "cfsQuota", ""])
        slo["resourceUsedThresholdWithBE"] = {
            "enable": rng.choice([True, True, False]), "cpuSuppressPolicy": policy,
        }  # fmt: skip
    return {
        "hook": hook, "node": node, "slo": slo, "topology": _topology(rng, cpus),
        "pods": [_pod(rng, f"p{at}", hook, cpus) for at in range(rng.choice([1, 2, 3]))],
        "managed": rng.random() < 0.3, "version": 1,
    }  # fmt: skip


def _strategy(rng: Random) -> dict[str, Any]:
    def identity() -> dict[str, Any]:
        value = rng.choice([-1, 0, 1, 2])
        return {"cpuQOS": {"enable": rng.random() < 0.8, "groupIdentity": value}}

    found: dict[str, Any] = {name: identity() for name in ("lsrClass", "lsClass", "beClass")}
    if rng.random() < 0.4:
        policy = rng.choice(["groupIdentity", "coreSched", ""])
        found["policies"] = rng.choice([{"cpuPolicy": policy}, {}])
    return found


def _topology(rng: Random, cpus: list[list[int]]) -> dict[str, str] | None:
    if rng.random() < 0.05:
        return None
    found = {}
    nodes = sorted({each[3] for each in cpus})
    for key in (_POOLS, _BE_POOLS):
        if rng.random() < 0.85:
            rows = [{"socket": 0, "node": numa, "cpuset": documents.cpu_list(rng, cpus, 8)}
                    for numa in nodes if rng.random() < 0.9]  # fmt: skip
            found[key] = json.dumps(rows)
    if rng.random() < 0.4:
        policy = json.dumps({"policy": rng.choice(["static", "none", ""])})
        found["kubelet.koordinator.sh/cpu-manager-policy"] = policy
    if rng.random() < 0.3:
        text = json.dumps({"cpuset": rng.choice([documents.cpu_list(rng, cpus), ""])})
        found["node.koordinator.sh/system-qos-resource"] = text
    if rng.random() < 0.06:
        key = rng.choice([_POOLS, "node.koordinator.sh/system-qos-resource"])
        found[key] = rng.choice(["{", '{"cpuset":"x"}'])
    return found


def _pod(rng: Random, name: str, hook: str, cpus: list[list[int]]) -> dict[str, Any]:
    qos = rng.choice(["LS", "LS", "LSR", "LSE", "BE", "BE", "SYSTEM", "", ""])
    if hook == "BatchResource" and rng.random() < 0.7:
        qos = "BE"
    kube = rng.choice(["Burstable", "Guaranteed", "BestEffort"])
    annotations = {}
    if rng.random() < 0.4:
        annotations[documents.STATUS] = _status(rng, cpus)
    if hook == "GroupIdentity" and rng.random() < 0.4:
        own: dict[str, Any] = {
            "enable": rng.choice([True, False, None]), "groupIdentity": rng.choice([-1, 2, None]),
        }  # fmt: skip
        text = json.dumps({key: value for key, value in own.items() if value is not None})
        annotations["koordinator.sh/cpuQOS"] = rng.choice([text] * 5 + ["{"])
    containers = [_container(rng, f"c{at}", hook, qos) for at in range(rng.choice([1, 1, 2, 3]))]
    if hook == "BatchResource" and rng.random() < 0.25:
        rows = {each["name"]: each.pop("resources") for each in containers}
        text = json.dumps({"containers": rows})
        annotations["node.koordinator.sh/extended-resource-spec"] = rng.choice([text] * 5 + ["{}"])
    return documents.pod(name, containers, qos=qos, kube=kube, annotations=annotations)


def _status(rng: Random, cpus: list[list[int]]) -> str:
    if rng.random() < 0.1:
        return rng.choice(["{", '{"cpuset":""}', "{}"])
    if rng.random() < 0.4:
        return json.dumps({"cpuset": documents.cpu_list(rng, cpus)})
    name = rng.choice(["cpu", "cpu", "kubernetes.io/batch-cpu", "memory"])
    rows = [{"node": numa, "resources": {name: rng.choice(["1", "0", "2"])}}
            for numa in sorted({each[3] for each in cpus}) if rng.random() < 0.7]  # fmt: skip
    return json.dumps({"numaNodeResources": rows})


def _container(rng: Random, name: str, hook: str, qos: str) -> dict[str, Any]:
    def amounts() -> dict[str, str]:
        batch = hook == "BatchResource" and (qos == "BE" or rng.random() < 0.5)
        names = ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"]
        found = {each: rng.choice(_AMOUNTS) for each in (names if batch else ["cpu", "memory"])}
        return {key: value for key, value in found.items() if value and rng.random() < 0.9}

    return {"name": name, "resources": {"requests": amounts(), "limits": amounts()}}


def _differing(theirs: Any, ours: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the two differ, with both values at the end."""
    if isinstance(theirs, list) and isinstance(ours, list):
        theirs, ours = dict(enumerate(theirs)), dict(enumerate(ours))
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return [] if theirs == ours else [(*path, theirs, ours)]
    every = sorted({*theirs, *ours}, key=str)
    return [
        found for key in every for found in _differing(theirs.get(key), ours.get(key), (*path, key))
    ]


def _quota_of_bound(case: Any, theirs: Any, ours: Any) -> bool:
    """Pods of other classes than LSE and LSR that have CPUs of their own."""
    for each in _differing(theirs, ours):
        if case["hook"] != "CPUSetAllocator" or each[0] != "pods" or "LS" in each[:-2]:
            return False
        pod = case["pods"][each[1]]["metadata"]
        if pod["labels"].get(documents.QOS) not in ("LS", "BE", "SYSTEM"):
            return False
        if not (each[-1] in (-1, {_QUOTA: -1}) and each[-2] is None):
            return False
    return True


def _some_unlimited(case: Any, theirs: Any, ours: Any) -> bool:
    for each in _differing(theirs, ours):
        if case["hook"] != "CPUNormalization" or each[2:4] != ("pod", _QUOTA):
            return False
        containers = case["pods"][each[1]]["spec"]["containers"]
        limits = [one["resources"]["limits"].get("cpu", "0") for one in containers]
        if "0" not in limits or each[-1] is not None:
            return False
    return True


def _other_class(case: Any, theirs: Any, ours: Any) -> bool:
    for each in _differing(theirs, ours):
        if case["hook"] != "GroupIdentity" or each[2:4] != ("pod", "error"):
            return False
        pod = case["pods"][each[1]]["metadata"]
        if pod["labels"].get(documents.QOS) == "LS":
            return False
    return True


def _malformed(case: Any, theirs: Any, ours: Any) -> bool:
    found = _differing(theirs, ours)
    return all(
        each[0] == "pods"
        and each[-1] in ("error", None)
        and "{" in case["pods"][each[1]]["metadata"]["annotations"].values()
        for each in found
    )


DIFFERENCES = {
    "hooks-bound-quota": Difference(
        "the original's reconciler lifts no quota of bound pods that are neither LSE nor LSR",
        _quota_of_bound,
    ),
    "hooks-normalization-unlimited": Difference(
        "the original gives a pod the sum of those of its containers that are limited",
        _some_unlimited,
    ),
    "hooks-cpuqos-ls": Difference(
        "the original stumbles over an annotation that does not count for the pod's class",
        _other_class,
    ),
    "hooks-malformed": Difference(
        "the original takes a malformed allocation for none",
        _malformed,
    ),
}  # fmt: skip

_NULL = "what is left are null contexts and objects of another type"
_ERRORS = "what is left are log lines of errors that only null contexts cause"
COVERAGE = {
    "batch_resource.go:SetContainerResources": _ERRORS,
    "batch_resource.go:SetPodResources": _ERRORS,
    "batchresource/rule.go:parseRuleForNodeMeta": _NULL,
    "cpu_normalization.go:AdjustContainerCFSQuota": _NULL,
    "cpu_normalization.go:AdjustPodCFSQuota": _NULL,
    "cpunormalization/rule.go:parseRule": _NULL,
    "cpuset.go:UnsetPodCPUQuota": "what is left is a flag that switches it off, and null contexts",
    "cpuset/rule.go:parseRule": "what is left are series of each CPU, behind a gate",
}
