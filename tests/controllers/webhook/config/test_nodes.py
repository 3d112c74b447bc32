# SPDX-License-Identifier: Apache-2.0
"""What nodes offer more than they have, and labels that two strategies match."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api import codec
from koord.api.kinds.cluster import ConfigMap
from koord.api.protocol import keys
from koord.api.sloconfig import sections
from koord.controllers.webhook.framework.admission_request import Requester, ResourceName
from koord.controllers.webhook.framework.webhook_table import MUTATE_NODE_STATUS, VALIDATE_NODE
from koord.controllers.webhook.nodes import HANDLERS
from tests.controllers.webhook.api_server import Server, asked, request

KUBELET, MANAGER = "system:node:n", "system:serviceaccount:koordinator-system:koord-manager"


class Machine:
    """A node as it is stored, its kubelet, and others that write its status."""

    def __init__(self, cpu: str = "10", memory: str = "20Gi", ratios: Any = None) -> None:
        self.own = {"cpu": cpu, "memory": memory}
        self.beat = 0
        self.stored: dict[str, Any] = {
            "metadata": {"name": "n", "annotations": {}},
            "status": {"allocatable": dict(self.own), "conditions": []},
        }
        self.ratios(ratios)
        self.handler = HANDLERS[MUTATE_NODE_STATUS](Server().replica().given)

    def ratios(self, ratios: Any) -> None:
        annotations = self.stored["metadata"]["annotations"]
        annotations.pop(keys.RESOURCE_AMPLIFICATION_RATIO, None)
        if ratios is not None:
            annotations[keys.RESOURCE_AMPLIFICATION_RATIO] = json.dumps(ratios)

    def write(self, username: str, change: dict[str, Any], *, seen: bool = True) -> Any:
        """One write of the status, whether or not the webhook is asked."""
        old, new = self.stored, json.loads(json.dumps(self.stored))
        new["status"] = {**new["status"], **change}
        if seen:
            given_now = request(
                "UPDATE", new, old, kind="Node", resource=ResourceName("", "nodes", "status"),
                requester=Requester(username),
            )  # fmt: skip
            new = asyncio.run(asked(self.handler, given_now)).document or new
        self.stored = new
        return new["status"]["allocatable"]

    def report(self, *, seen: bool = True) -> Any:
        """The kubelet says what its machine offers."""
        self.beat += 1
        ready = {"type": "Ready", "lastHeartbeatTime": f"2026-01-01T00:{self.beat:02}:00Z"}
        change = {
            "allocatable": {**self.stored["status"]["allocatable"], **self.own},
            "conditions": [ready],
        }
        return self.write(KUBELET, change, seen=seen)

    def other(self, username: str = MANAGER) -> Any:
        """Somebody writes another resource."""
        there = self.stored["status"]["allocatable"]
        return self.write(
            username, {"allocatable": {**there, "kubernetes.io/batch-cpu": self.beat}}
        )

    @property
    def raw(self) -> Any:
        return json.loads(self.stored["metadata"]["annotations"][keys.RAW_ALLOCATABLE])


def test_cpu_is_amplified_and_memory_stays() -> None:
    node = Machine(ratios={"cpu": 1.5})
    assert node.report() == {"cpu": "15", "memory": "20Gi"}
    assert node.raw == {"cpu": "10", "memory": "20Gi"}
    assert node.other()["cpu"] == "15"
    assert node.report()["cpu"] == "15"


def test_a_ratio_of_1_or_less_does_nothing() -> None:
    assert Machine(ratios={"cpu": 1, "memory": 0.5}).report() == {"cpu": "10", "memory": "20Gi"}


def test_without_ratios_nothing_is_kept() -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.report()
    node.ratios(None)
    assert node.report()["cpu"] == "10"
    assert node.stored["metadata"]["annotations"] == {}


def test_a_kubelets_amount_that_equals_the_amplified_one_is_not_missed() -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.report()
    node.own["cpu"] = "15"
    assert node.report()["cpu"] == "22500m"
    assert node.raw["cpu"] == "15"
    assert node.other()["cpu"] == "22500m"


def test_a_kubelets_write_that_is_no_report_changes_nothing() -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.report()
    assert node.other(KUBELET)["cpu"] == "15"


def test_a_report_that_the_webhook_missed_is_made_good() -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.report()
    node.own["cpu"] = "12"
    assert node.report(seen=False)["cpu"] == "12"
    assert node.other()["cpu"] == "18"


def test_memory_that_changes_leaves_cpu_alone() -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.report()
    there = {**node.stored["status"]["allocatable"], "memory": "30Gi"}
    assert node.write(MANAGER, {"allocatable": there})["cpu"] == "15"
    assert node.raw == {"cpu": "10", "memory": "30Gi"}


def test_another_ratio_counts_with_the_next_write_of_anybody() -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.report()
    node.ratios({"cpu": 2})
    assert node.other()["cpu"] == "20"
    node.ratios({"memory": 2})
    assert node.other() == {"cpu": "10", "memory": "40Gi", "kubernetes.io/batch-cpu": 1}


def test_a_node_of_the_originals_webhook_is_taken_over() -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.stored["status"]["allocatable"]["cpu"] = "15"
    annotations = node.stored["metadata"]["annotations"]
    annotations[keys.RAW_ALLOCATABLE] = '{"cpu":"10","memory":"20Gi"}'
    assert node.other()["cpu"] == "15"
    assert annotations.get(keys.APPLIED_AMPLIFICATION) is None
    assert node.stored["metadata"]["annotations"][keys.APPLIED_AMPLIFICATION] == '{"cpu":1.5}'
    node.ratios({"cpu": 2})
    # As the original leaves it when it takes over again: our record is of another ratio then.
    node.stored["status"]["allocatable"]["cpu"] = "20"
    assert node.other()["cpu"] == "20"


_RATIO = st.sampled_from([{"cpu": 1.5}, {"cpu": 2, "memory": 1.25}, {"cpu": 1}, {}])
_act = st.one_of(
    st.tuples(st.just("report"), st.sampled_from(["10", "12", "15", "18", "20"])),
    st.tuples(st.just("missed"), st.sampled_from(["11", "13"])),
    st.tuples(st.just("other"), st.none()),
    st.tuples(st.just("ratios"), _RATIO),
)


@given(st.lists(_act, min_size=1, max_size=15))
@settings(max_examples=150, deadline=None)
def test_a_node_offers_what_its_machine_has_times_the_ratio(acts: list[Any]) -> None:
    node = Machine(ratios={"cpu": 1.5})
    node.report()
    ratio = 1.5
    for act, value in acts:
        if act == "ratios":
            node.ratios(value)
            ratio = max(1, value.get("cpu", 1))
            continue
        if act in ("report", "missed"):
            node.own["cpu"] = value
            node.report(seen=act == "report")
        offered = node.other()["cpu"] if act != "report" else None
        offered = offered or node.stored["status"]["allocatable"]["cpu"]
        assert _milli(offered) == int(_milli(node.own["cpu"]) * ratio)


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


CONFIG = {
    sections.COLOCATION: json.dumps({"nodeConfigs": [
        {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}},
        {"name": "z", "nodeSelector": {"matchLabels": {"zone": "z"}}},
    ]}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "before", "good"),
    [
        ({"pool": "a", "zone": "z"}, {}, False),
        ({"pool": "a"}, {}, True),
        ({"pool": "a", "zone": "z"}, {"pool": "a", "zone": "z"}, True),
    ],
)
def test_a_node_has_one_strategy_of_a_section(labels: Any, before: Any, good: bool) -> None:
    server = Server()
    meta = {"name": sections.CONFIG_MAP_NAME, "namespace": sections.CONFIG_MAP_NAMESPACE}
    server.put(codec.convert({"metadata": meta, "data": CONFIG}, ConfigMap, "c"))
    replica = server.replica()
    handler = HANDLERS[VALIDATE_NODE](replica.given)
    replica.catch_up()

    def told(operation: str) -> Any:
        new, old = ({"metadata": {"name": "n", "labels": each}} for each in (labels, before))
        given_now = request(
            operation, new, old if operation == "UPDATE" else None, kind="Node",
            resource=ResourceName("", "nodes"),
        )  # fmt: skip
        return asyncio.run(asked(handler, given_now))

    found = told("UPDATE")
    assert found.allowed is good
    if not good:
        line = (
            "Node n: metadata.labels: got 'a, z', "
            "expected labels that at most one node strategy of colocation-config matches"
        )
        assert found.message == line
        assert (told("CREATE").allowed, told("CREATE").warnings) == (True, (line,))


def test_without_the_config_map_labels_are_free() -> None:
    handler = HANDLERS[VALIDATE_NODE](Server().replica().given)
    new, old = ({"metadata": {"name": "n", "labels": each}} for each in ({"a": "b"}, {}))
    given_now = request("UPDATE", new, old, kind="Node", resource=ResourceName("", "nodes"))
    assert asyncio.run(asked(handler, given_now)).allowed
