# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.contract.api import Api
from tests.contract.embedded import start_embedded

EVICT = "descheduler.alpha.kubernetes.io/evict"
SNAPSHOT = Path(__file__).resolve().parents[4] / "examples" / "descheduler" / "hot-node.yaml"


@pytest.fixture
def plan(koord: Run) -> Run:
    return partial(koord, "deschedule", "plan")


def test_the_shipped_example_as_json(plan) -> None:
    status, out, _ = plan("--snapshot", SNAPSHOT, "-o", "json")
    assert status == 0
    made = json.loads(out)
    (step,) = made["steps"]
    assert (step["name"], step["node"], step["target"]) == ("web-0", "node-0", "node-2")
    assert made["overloadBefore"] - made["overloadAfter"] == step["gain"] == 8.125
    assert len(made["nodes"]) == 6


def test_the_same_for_people(plan) -> None:
    status, out, _ = plan("--snapshot", SNAPSHOT)
    assert status == 0
    assert out.startswith("1 move planned as of 2026-01-01T00:00:00Z, 0 pods of those wanted stay")
    assert "cpu    before ▇▅▂▃▃▃" in out
    assert "cpu    after  ▆▅▃▃▃▃" in out
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("note"))


def test_what_cannot_be_read_is_said_in_one_line(plan, tmp_path: Path) -> None:
    twice = tmp_path / "twice.yaml"
    twice.write_text("---\n".join(2 * ["apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"]))
    for words, told in (
        (["--snapshot", twice], "'Node n1', expected every object once"),
        (["--snapshot", SNAPSHOT, "--scheduler-config", twice], "expected one document"),
        (["--snapshot", SNAPSHOT, "--context", "x"], "--context"),
    ):
        status, out, error = plan(*words)
        assert (status, out, len(error.splitlines())) == (2, "", 1)
        assert told in error


TAINTED = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
profiles:
- plugins:
    deschedule: {enabled: [{name: RemovePodsViolatingNodeTaints}]}
    filter: {enabled: [{name: DefaultEvictor}], disabled: [{name: "*"}]}
    evict: {enabled: [{name: DefaultEvictor}], disabled: [{name: "*"}]}
"""


def test_a_cluster_is_read_and_nothing_is_evicted(plan, koord: Run, tmp_path: Path) -> None:
    config = tmp_path / "descheduler.yaml"
    config.write_text(TAINTED)
    with start_embedded(tmp_path, controllers=False) as embedded:
        assert koord("crds", "install", "--kubeconfig", embedded.kubeconfig)[0] == 0
        api = Api(embedded.port, embedded.tls(), embedded.headers)
        offered = {"cpu": "4", "memory": "8Gi", "pods": "9"}
        for name in ("n1", "n2"):
            taints = [{"key": "drain", "effect": "NoSchedule"}] if name == "n1" else []
            node = {
                "metadata": {"name": name},
                "spec": {"taints": taints},
                "status": {"allocatable": offered},
            }
            assert api.post("/api/v1/nodes", node).code == 201
        pod = {
            "metadata": {"name": "old", "annotations": {EVICT: "true"}},
            "spec": {
                "nodeName": "n1", "schedulerName": "koord-scheduler",
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
                "containers": [{"name": "c", "image": "i"}],
            },
        }  # fmt: skip
        pods = "/api/v1/namespaces/default/pods"
        assert api.post(pods, pod).code == 201
        words = ("--config", config, "--kubeconfig", embedded.kubeconfig, "-o", "json")
        status, out, error = plan(*words)
        left = api.get(f"{pods}/old")
        api.close()
    assert (status, error, left.code) == (0, "", 200)
    (step,) = json.loads(out)["steps"]
    assert (step["name"], step["node"], step["target"]) == ("old", "n1", "n2")
