# SPDX-License-Identifier: Apache-2.0
"""What the pages of a list bring at once gives what the same objects give one by one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.clock import VirtualClock
from tests.controllers.scheduler.histories import documents
from tests.controllers.scheduler.histories.documents import Document
from tests.controllers.scheduler.histories.rebuilt import anew, differences
from tests.profiles import examples

NODES = ["n0", "n1", "n2", "n3"]
FORMS = ["plain", "high", "apart", "share", "gpus", "broken", *documents.CPU_FORMS]
TIME = "2030-01-14T09:00:00Z"
GANG = "pod-group.scheduling.sigs.k8s.io"
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "owner": st.just("r"),
        "form": st.just("apart"),
        documents.QUOTA + "name": st.sampled_from(["q0", "q1", "none"]),
        documents.QUOTA + "preemptible": st.just("false"),
        GANG: st.sampled_from(["g0", "g1"]),
    },
)
# What the scheduler wrote on a pod; "{" is not to be read.
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        documents.ALLOCATED: st.sampled_from(["r0", "r1", "none", "{"]),
        documents.CPU_STATUS: st.sampled_from(["0-1", "2,4", "{"]),
        documents.DEVICES: st.sampled_from(["0", "1", "7", "{"]),
    },
)
# What some plugins count by: ports, claims, and pods that are to be near, far or spread.
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "port": st.sampled_from([80, 81]),
        "claim": st.sampled_from(["c0", "c1"]),
        "near": st.sampled_from(["podAffinity", "podAntiAffinity"]),
        "apart": st.sampled_from(["ScheduleAnyway", "DoNotSchedule"]),
    },
)
PODS = st.lists(
    st.tuples(
        st.sampled_from(FORMS),
        st.integers(1, 3),
        # Nobody knows the node "gone".
        st.sampled_from(["", "gone", *NODES, *NODES]),
        st.sampled_from(["Running", "Running", "Running", "Succeeded"]),
        st.sampled_from([False, False, False, True]),
        LABELS,
        GIVEN,
        WISHES,
        # Whether it is listed twice.
        st.sampled_from([False, False, False, False, True]),
    ),
    max_size=24,
)
OWNED = {"labelSelector": {"matchLabels": {"owner": "r"}}}


def given_text(key: str, value: str) -> str:
    """The annotation that the scheduler writes."""
    if value == "{":
        return value
    if key == documents.ALLOCATED:
        return json.dumps({"name": value, "uid": value})
    if key == documents.CPU_STATUS:
        return json.dumps({"cpuset": value})
    resources = dict.fromkeys(documents.MINOR, "50")
    return json.dumps({"gpu": [{"minor": int(value), "resources": resources}]})


def wished(spec: Document, wishes: dict[str, Any]) -> None:
    """Writes into a pod's spec what it wants beside amounts."""
    if "port" in wishes:
        port = {"containerPort": 8080, "hostPort": wishes["port"], "protocol": "TCP"}
        spec["containers"][0]["ports"] = [port]
    if "claim" in wishes:
        claim = {"claimName": wishes["claim"]}
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
    if "near" in wishes:
        term = {"weight": 7, "podAffinityTerm": {"topologyKey": "zone", **OWNED}}
        rules = spec.setdefault("affinity", {}).setdefault(wishes["near"], {})
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = [term]
    if "apart" in wishes:
        rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": wishes["apart"], **OWNED}
        spec["topologySpreadConstraints"] = [rule]


def pod_of(number: int, drawn: tuple[Any, ...]) -> Pod:
    form, cpu, node, phase, ends, labels, written, wishes, _ = drawn
    document = documents.pod(f"p{number}", form, cpu, labels)
    meta = document["metadata"]
    meta |= {"uid": f"u{number}", "resourceVersion": f"{number}", "creationTimestamp": TIME}
    meta["annotations"] |= {key: given_text(key, value) for key, value in written.items()}
    if ends:
        meta["deletionTimestamp"] = TIME
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": TIME}
    document["status"] = {"phase": phase, "conditions": [scheduled] if node else []}
    document["spec"] |= {"nodeName": node, "priority": 9000 + cpu}
    wished(document["spec"], wishes)
    return convert(document, Pod, "Pod")


def made(kind: Any, document: Document) -> Any:
    document["metadata"].setdefault("uid", document["metadata"]["name"])
    document["metadata"]["resourceVersion"] = "1"
    return convert(document, kind, kind.__name__)


def reservations() -> list[Any]:
    found = []
    for number, policy in enumerate(("Aligned", "Restricted")):
        document = documents.reservation(f"r{number}", 3, policy, once=False)
        requests = {"cpu": "3", "memory": "256Mi"}
        document["status"] = {
            "phase": "Available", "nodeName": NODES[number], "allocatable": requests,
            "conditions": [{"type": "Ready", "status": "True"}],
        }  # fmt: skip
        found.append(made(Reservation, document))
    return found


def reports(pods: list[Pod]) -> list[NodeMetric]:
    """What two nodes measured of the first pods."""
    usage = {"resources": {"cpu": "500m", "memory": "100Mi"}}
    measured = [
        {"namespace": pod.metadata.namespace, "name": pod.metadata.name, "podUsage": usage}
        for pod in pods[:6]
    ]
    node = {"resources": {"cpu": "2", "memory": "1Gi"}}
    status = {"updateTime": TIME, "nodeMetric": {"nodeUsage": node}, "podsMetric": measured}
    return [made(NodeMetric, {"metadata": {"name": name}, "status": status}) for name in NODES[1:3]]


def lists(pods: list[tuple[Any, ...]]) -> dict[type, list[Any]]:
    listed = [
        pod_of(number, drawn) for number, drawn in enumerate(pods) for _ in range(1 + drawn[-1])
    ]
    return {
        Node: [made(Node, documents.node(name, n, gpus=n < 2)) for n, name in enumerate(NODES)],
        NodeResourceTopology: [
            made(NodeResourceTopology, documents.topology(name)) for name in NODES[:3]
        ],
        Device: [made(Device, documents.device(name)) for name in NODES[:2]],
        ElasticQuota: [made(ElasticQuota, documents.quota(name, 8)) for name in ("q0", "q1")],
        Reservation: reservations(),
        NodeMetric: reports(listed),
        Pod: listed,
    }


# Two schedulers are put together for each, which takes as long as all the rest.
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=examples(0.25))
@given(PODS, st.integers(1, 30), st.integers(0, 5))
def test_pages_give_what_one_by_one_gives(
    pods: list[tuple[Any, ...]], page: int, seed: int
) -> None:
    found, clock = lists(pods), VirtualClock()
    plain, paged = anew(found, clock, seed), anew(found, clock, seed, page)
    assert sorted(plain.world.accounts.pods()) == sorted(paged.world.accounts.pods())
    assert plain.world.orphans.uids() == paged.world.orphans.uids()
    assert plain.queue.pending() == paged.queue.pending()
    probes = [pod for pod in found[Pod] if GANG not in pod.metadata.labels][:4]
    assert not differences(plain, paged, probes)
    # And what was counted together can be taken off one by one.
    for each in (plain, paged):
        for info in list(each.world.accounts.pods().values()):
            each.world.accounts.drop(info)
    assert not differences(plain, paged, probes)
    assert not paged.world.table.requested.any()
    assert not paged.world.table.nonzero.any()
