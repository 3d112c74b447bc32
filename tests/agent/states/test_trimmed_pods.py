# SPDX-License-Identifier: Apache-2.0
"""A pod as the agent reads it is the whole one without what no part of the agent looks at."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.agent.hooks.pod_contexts import container_context, pod_context
from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.states.pod_state import pod_state
from koord.agent.states.trimmed_pods import AgentPod
from koord.api.codec import to_document
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import kind_of_type
from koord.kernels.cgroup_path import Driver
from koord.kube.codec.decoder import Decoder

LAYOUT = CgroupLayout(Driver.SYSTEMD)
# The model: member names that are left out, wherever they stand in spec and status.
SKIPPED = {
    "affinity", "conditions", "env", "image", "lastState", "ports", "tolerations",
    "topologySpreadConstraints",
}  # fmt: skip

TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
CONTAINER: dict[str, Any] = {
    "resources": {"requests": {"cpu": "500m", "kubernetes.io/batch-cpu": "100"}},
    "image": "registry.example.com/web:1",
    "ports": [{"containerPort": 80, "hostPort": 80}],
    "env": [{"name": "A", "value": "1"}],
    "restartPolicy": "Always",
}
SPEC: dict[str, Any] = {
    "nodeName": "n", "priority": 5500, "runtimeClassName": "kata", "hostNetwork": True,
    "overhead": {"cpu": "10m"}, "affinity": {"nodeAffinity": REQUIRED},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}],
}  # fmt: skip
VOLUMES = [
    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "fast", "csi": {"driver": "local.csi.example.com"}},
]
STATUS: dict[str, Any] = {
    "phase": "Running", "qosClass": "Burstable", "startTime": "2026-01-01T00:00:00Z",
    "conditions": [{"type": "Ready", "status": "True"}],
}  # fmt: skip
ENDED = {"terminated": {"exitCode": 1, "reason": "OOMKilled"}}


def some(members: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the members."""
    return st.sets(st.sampled_from(sorted(members))).map(
        lambda names: {name: members[name] for name in sorted(names)}
    )


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    names = {
        where: draw(st.lists(st.sampled_from("abcd"), max_size=3, unique=True))
        for where in ("containers", "initContainers")
    }
    spec = {
        where: [{"name": name, **draw(some(CONTAINER))} for name in each]
        for where, each in names.items()
    }
    statuses = {
        f"{where.removesuffix('s')}Statuses": [
            {
                "name": name, "containerID": f"containerd://{where}-{name}",
                "state": {"running": {}}, **draw(some({"ready": True, "lastState": ENDED})),
            }
            for name in each
        ]
        for where, each in names.items()
    }  # fmt: skip
    volumes = draw(st.lists(st.sampled_from(VOLUMES), max_size=3))
    labels = draw(some({"koordinator.sh/qosClass": "LS", "app": "web"}))
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "labels": labels},
        "spec": {**spec, "volumes": volumes, **draw(some(SPEC))},
        "status": {**statuses, **draw(some(STATUS))},
    }  # fmt: skip


def without(document: Any) -> Any:
    if isinstance(document, list):
        return [without(each) for each in document if "projected" not in each]
    if not isinstance(document, dict):
        return document
    return {name: without(each) for name, each in document.items() if name not in SKIPPED}


def read(document: dict[str, Any], kind: type[Pod]) -> Pod:
    return Decoder(kind_of_type(Pod), kind).one(json.dumps(document).encode())


def compact(document: Any) -> Any:
    """Empty members count as absent."""
    if not isinstance(document, dict):
        return document
    found = {name: compact(each) for name, each in document.items()}
    return {name: each for name, each in found.items() if each not in ({}, [])}


@given(pods())
def test_all_but_what_is_skipped(document: dict[str, Any]) -> None:
    whole, seen = read(document, Pod), read(document, AgentPod)
    assert isinstance(seen, Pod)
    assert compact(to_document(seen)) == compact(without(to_document(whole)))
    assert seen.title == whole.title


@given(pods())
def test_states_and_hooks_see_the_same(document: dict[str, Any]) -> None:
    whole, seen = (pod_state(read(document, kind), LAYOUT) for kind in (Pod, AgentPod))
    for field in ("qos", "qos_default", "kube_qos", "priority_class", "priority", "directory"):
        assert getattr(seen, field) == getattr(whole, field)
    contexts = [
        [container_context(pod_context(state), each) for each in state.containers]
        for state in (whole, seen)
    ]
    assert contexts[0] == contexts[1]
