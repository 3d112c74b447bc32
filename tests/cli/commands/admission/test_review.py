# SPDX-License-Identifier: Apache-2.0
"""``koord admission review`` on files: what is printed, as text and JSON, and the exit status."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run
from tests.contract.api import Api
from tests.contract.embedded import start_embedded

PROFILES = """
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: batch}
spec:
  namespaceSelector: {matchLabels: {colocation: "on"}}
  qosClass: BE
  priorityClassName: koord-batch
---
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: wrong}
spec: {probability: many}
---
apiVersion: v1
kind: Namespace
metadata: {name: jobs, labels: {colocation: "on"}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: count, namespace: jobs}
spec:
  template:
    spec:
      containers: [{name: main, image: i, resources: {limits: {cpu: "1", memory: 4Gi}}}]
"""
REFUSED = """
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: shop, labels: {koordinator.sh/qosClass: LSR}}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("profiles", PROFILES), ("job", JOB), ("refused", REFUSED)):
        Path(f"{name}.yaml").write_text(text)


ADMITTED = """\
job.yaml: Pod jobs/count-, of Job jobs/count
  clustercolocationprofile (ClusterColocationProfile batch):
    labels[koordinator.sh/qosClass] = BE
    spec.priorityClassName = koord-batch
    spec.priority = 5000
    spec.preemptionPolicy = PreemptLowerPriority
  resource-translation (class koord-batch):
    spec.containers[0].resources.requests[cpu] = 1 becomes [kubernetes.io/batch-cpu] = 1k
"""
NOTE = (
    "note: ClusterColocationProfile wrong: spec.probability: got 'many', "
    "expected a number, or a percentage such as 30%\n"
)


@pytest.mark.usefixtures("folder")
def test_each_change_comes_with_its_rule_and_profile(koord: Run) -> None:
    status, out, error = koord("admission", "review", "-f", "job.yaml", "--profiles",
                               "profiles.yaml")  # fmt: skip
    assert (status, error) == (0, "")
    assert out.startswith(ADMITTED)
    assert "\n  -        cpu: '1'\n" in out
    assert "\n  +        kubernetes.io/batch-cpu: 1k\n" in out
    assert out.endswith("  gets in\n\n" + NOTE + "1 object: 1 changed, 0 refused\n")


@pytest.mark.usefixtures("folder")
def test_what_is_refused_names_webhook_rule_and_field_and_ends_with_1(koord: Run) -> None:
    status, out, _ = koord("admission", "review", "-f", "refused.yaml", "--profiles",
                           "profiles.yaml")  # fmt: skip
    assert status == 1
    assert (
        "  refused by vpod.koordinator.sh, qos-class-priority-and-resources: Pod shop/bad: "
        "labels[koordinator.sh/qosClass]: got 'LSR without a priority class', expected "
    ) in out
    assert "note: namespace shop is not known: no profile with a namespaceSelector is for" in out


@pytest.mark.usefixtures("folder")
def test_as_json_from_standard_input(koord: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(JOB.encode())))
    status, out, _ = koord("admission", "review", "-f", "-", "--profiles", "profiles.yaml",
                           "-o", "json")  # fmt: skip
    assert status == 0
    told = json.loads(out)
    [found] = told["objects"]
    assert (found["file"], found["object"], found["of"]) == (
        "-",
        "Pod jobs/count-",
        "Job jobs/count",
    )
    assert [each["name"] for each in found["webhooks"]] == [
        "mpod-create.koordinator.sh", "vpod.koordinator.sh",
    ]  # fmt: skip
    assert {"op": "replace", "path": "/spec/priority", "value": 5000} in found["patch"]
    assert found["admitted"]["metadata"]["labels"] == {"koordinator.sh/qosClass": "BE"}
    assert told["notes"] == [NOTE.strip().removeprefix("note: ")]


@pytest.mark.usefixtures("folder")
def test_gates_count(koord: Run) -> None:
    status, out, _ = koord("admission", "review", "-f", "job.yaml", "--profiles", "profiles.yaml",
                           "--feature-gates", "PodMutatingWebhook=false")  # fmt: skip
    assert status == 0
    assert "1 object: 0 changed, 0 refused" in out


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_read_ends_with_2(koord: Run) -> None:
    status, _, error = koord("admission", "review", "-f", "none.yaml", "--profiles", "job.yaml")
    assert (status, error) == (
        2, "error: FILE: got 'none.yaml', expected a file that can be read (No such file or "
        "directory)\n",
    )  # fmt: skip
    assert koord("admission", "review", "-f", "job.yaml", "--profiles", "job.yaml",
                 "--kubeconfig", "x")[0] == 2  # fmt: skip
    assert koord("admission", "review", "-f", "job.yaml", "--profiles", "job.yaml",
                 "--feature-gates", "Nonsense=true")[0] == 2  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_objects_that_cannot_be_pods_are_refused_not_a_traceback(koord: Run) -> None:
    for spec in (
        "[]",
        "{containers: [null]}",
        "{containers: {a: 1}}",
        "{containers: [{resources: 3}]}",
    ):
        Path("odd.yaml").write_text(
            f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n"
        )
        status, out, _ = koord("admission", "review", "-f", "odd.yaml", "--profiles",
                               "profiles.yaml")  # fmt: skip
        assert status == 1
        assert "  refused by mpod-create.koordinator.sh: Pod: spec" in out


def test_against_a_cluster(koord: Run, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    with start_embedded(tmp_path, controllers=False) as embedded:
        assert koord("crds", "install", "--kubeconfig", embedded.kubeconfig)[0] == 0
        api = Api(embedded.port, embedded.tls(), embedded.headers)
        for path, document in (
            ("/api/v1/namespaces", {"metadata": {"name": "jobs", "labels": {"colocation": "on"}}}),
            ("/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles",
             {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
              "metadata": {"name": "ours"}, "spec": {"labels": {"by": "cluster"}}}),
        ):  # fmt: skip
            assert api.post(path, document).code == 201
        api.close()
        words = ("admission", "review", "-f", job, "--kubeconfig", embedded.kubeconfig)
        status, out, error = koord(*words)
        pod = {
            "metadata": {"name": "p", "namespace": "jobs"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        api.close()
        api = Api(embedded.port, embedded.tls(), embedded.headers)
        assert api.post("/api/v1/namespaces/jobs/pods", pod).code == 201
        api.close()
        explain = ("explain", "profile", "--kubeconfig", embedded.kubeconfig)
        explained, nobody = koord(*explain, "ours"), koord(*explain, "none")
    assert explained == (
        0,
        "profile ours: 0 pods caught, 1 once they are made anew, 0 not drawn, 0 cannot be "
        "converted\n"
        "NAMESPACE  OWNER  CAUGHT  NEXT TIME  NOT DRAWN  REFUSED\n"
        "jobs       Pod p       0          1          0        0\n",
        "",
    )
    assert nobody == (
        2, "", "error: PROFILE: got 'none', expected the name of a ClusterColocationProfile\n"
    )  # fmt: skip
    assert (status, error) == (0, "")
    assert "  clustercolocationprofile (ClusterColocationProfile ours):\n    labels[by]" in out
    # The server has gone.
    status, out, error = koord(*words)
    assert (status, out) == (2, "")
    assert error.startswith("error: cluster: ")
