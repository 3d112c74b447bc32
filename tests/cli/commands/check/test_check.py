# SPDX-License-Identifier: Apache-2.0
"""``koord check`` as people and pipelines run it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run
from tests.contract.embedded import start_embedded

GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
WARNED = GOOD.replace("{name: p}", "{name: p, labels: {koordinator.sh/qosClas: LS}}")
WRONG = GOOD.replace("{name: p}", "{name: p, labels: {koordinator.sh/qosClass: LSX}}")
FOREIGN = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"good": GOOD, "warned": WARNED, "wrong": WRONG, "foreign": FOREIGN}.items():
        Path(f"{name}.yaml").write_text(text)
    return tmp_path


WARNING = (
    "warned.yaml:3: warning: Pod p: metadata.labels[koordinator.sh/qosClas]: "
    "got 'koordinator.sh/qosClas', expected a key that koord knows, such as "
    "koordinator.sh/qosClass\n"
)
ERROR = (
    "wrong.yaml:3: error: Pod p: metadata.labels[koordinator.sh/qosClass]: got 'LSX', "
    "expected LSE, LSR, LS, BE or SYSTEM\n"
)


@pytest.mark.usefixtures("folder")
def test_lines_and_exit_status(koord: Run) -> None:
    assert koord("check", "good.yaml") == (0, "1 object in 1 file: 0 errors, 0 warnings\n", "")
    assert koord("check", "warned.yaml") == (
        0, WARNING + "1 object in 1 file: 0 errors, 1 warning\n", ""
    )  # fmt: skip
    assert koord("check", "warned.yaml", "--strict")[0] == 1
    assert koord("check", "wrong.yaml", "good.yaml", "good.yaml") == (
        1, ERROR + "2 objects in 2 files: 1 error, 0 warnings\n", ""
    )  # fmt: skip
    assert koord("check", "foreign.yaml") == (
        0, "not read by koord: example.com/v1 Thing\n1 object in 1 file: 0 errors, 0 warnings\n", ""
    )  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_checked_at_all(koord: Run) -> None:
    assert koord("check", "missing.yaml") == (
        2, "", "error: FILE: got 'missing.yaml', "
        "expected a file that can be read (No such file or directory)\n",
    )  # fmt: skip
    assert koord("check") == (
        2, "", "error: FILE: got '', "
        "expected the name of a file, or --from koordinator --cluster\n",
    )  # fmt: skip
    status, out, err = koord("check", "good.yaml", "--kubeconfig", "none")
    assert (status, out) == (2, "")
    assert err.startswith("error: kubeconfig none: ")


@pytest.mark.usefixtures("folder")
def test_json(koord: Run) -> None:
    status, out, err = koord("check", "wrong.yaml", "warned.yaml", "foreign.yaml", "-o", "json")
    assert (status, err) == (1, "")
    document = json.loads(out)
    assert document["problems"].pop()["severity"] == "warning"
    assert document == {
        "files": 3,
        "objects": 3,
        "errors": 1,
        "warnings": 1,
        "unread": {"example.com/v1 Thing": 1},
        "problems": [
            {
                "file": "wrong.yaml",
                "line": 3,
                "severity": "error",
                "object": "Pod p",
                "path": "metadata.labels[koordinator.sh/qosClass]",
                "value": "LSX",
                "expected": "LSE, LSR, LS, BE or SYSTEM",
            }
        ],
    }


def test_standard_input(koord: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(WRONG.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    status, out, _ = koord("check", "-")
    assert (status, out.splitlines()[0]) == (1, ERROR.replace("wrong.yaml", "-").rstrip())


DAEMONS = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: koordlet
        image: registry.local/koordlet:v1
        args:
        - -cgroup-root-dir=/host-cgroup
        - --feature-gates=BECPUSupress=true
      - name: manager
        image: any
        command: [/koord-manager]
        args: [--config-namespace=a, --colocation-profile-reconcile-interval=soon]
      - name: unknown
        image: any
        command: [/koord-manager, --config-namspace=a]
      - name: later
        image: any
        command: [/koord-manager, "--config-namspace=$(NAMESPACE)"]
"""


@pytest.mark.usefixtures("folder")
def test_flags_of_daemons(koord: Run) -> None:
    Path("daemons.yaml").write_text(DAEMONS)
    status, out, _ = koord("check", "daemons.yaml")
    where = "DaemonSet d: spec.template.spec.containers"
    assert (status, out.splitlines()[:-1]) == (1, [
        f"daemons.yaml:14: error: {where}[0].args[1]: got 'BECPUSupress', "
        "expected a known gate, such as BECPUSuppress",
        f"daemons.yaml:18: error: {where}[1].args[1]: got 'soon', "
        "expected a duration such as 30s, or 0",
        f"daemons.yaml:21: error: {where}[2].command[1]: "
        "got '--config-namspace', expected a known flag, such as --config-namespace",
    ])  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_values_that_json_has_not(koord: Run) -> None:
    Path("odd.yaml").write_text(GOOD.replace("image: i", "image: .inf"))
    status, out, _ = koord("check", "odd.yaml", "-o", "json")
    assert (status, json.loads(out)["problems"][0]["value"]) == (1, "inf")


def test_a_real_connection(koord: Run, tmp_path: Path) -> None:
    named = tmp_path / "named.yaml"
    named.write_text(GOOD.replace("spec: {", "spec: {priorityClassName: koord-nope, "))
    assert koord("check", named)[0] == 0
    with start_embedded(tmp_path, controllers=False) as embedded:
        status, out, err = koord("check", named, "--kubeconfig", embedded.kubeconfig)
    assert (status, err) == (1, "")
    assert out.splitlines()[0].startswith(
        f"{named}:4: error: Pod p: spec.priorityClassName: got 'koord-nope', "
        "expected the name of a PriorityClass of the files or the cluster"
    )
    # The server has gone.
    status, out, err = koord("check", named, "--kubeconfig", embedded.kubeconfig)
    assert (status, out) == (2, "")
    assert err.startswith("error: cluster: ")
