# SPDX-License-Identifier: Apache-2.0
"""koord as a user has it: its images and its chart on one real node, each component a pod there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.deploy.chart_files import ROOT
from tests.node.cluster.judgement import check_profiled
from tests.node.enter import MissingNodeError, hierarchies, run_inside
from tests.node.installed.control_plane import STORY_SECONDS
from tests.node.packages import MissingPackageError, find
from tests.real.fixtures import need
from tests.release.images import OUT

pytestmark = pytest.mark.image

_PROGRAMS = (
    "containerd", "containerd-shim-runc-v2", "ctr", "etcd", "helm", "kube-apiserver",
    "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet",
)  # fmt: skip
_COMPONENTS = {"koord-descheduler", "koord-manager", "koord-scheduler", "koordlet"}
# DAC_OVERRIDE, KILL, SYS_PTRACE, PERFMON.
_CAPABILITIES = (1, 5, 19, 38)
_FOLDERS = ("/run/koord-runtimeproxy", "/run/koordlet", "/var/lib/koordlet", "/var/log/koordlet")
_DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions//"


@pytest.fixture(scope="module")
def story() -> Any:
    """What happened, as far as it came."""
    assert (OUT / "index.json").is_file(), "no images: `make images` builds them"
    need(*_PROGRAMS)
    try:
        find("runc")
        hierarchies()
    except (MissingPackageError, MissingNodeError) as error:
        pytest.skip(str(error))
    return run_inside("tests.node.installed.control_plane", {}, STORY_SECONDS + 60)


@pytest.fixture
def seen(story: Any) -> Any:
    """Its figures, of a story that was told to its end."""
    assert "failure" not in story, story["failure"]
    return story["figures"]


def test_each_component_is_a_pod_of_the_node(seen: Any) -> None:
    """From the images that were built, as the chart names them."""
    print(f"real node: ready {seen['install seconds']} s after helm install")
    pods = seen["components"]
    assert {pod["metadata"]["labels"]["koord-app"] for pod in pods} == _COMPONENTS
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node"}
    used = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    assert sorted(used) == seen["images"]


def test_all_stay_ready(seen: Any) -> None:
    assert seen["restarts"] == {}, seen["restarts"]
    for pod in seen["components later"]:
        (status,) = pod["status"]["containerStatuses"]
        name = pod["metadata"]["name"]
        assert (name, status["ready"], status["restartCount"]) == (name, True, 0)


def test_helm_test_passes(seen: Any) -> None:
    """Each secure port answers under its service's name; helm reads what the test says of them."""
    assert "Phase:          Succeeded" in seen["helm test"]
    said = seen["helm test"].partition("POD LOGS: koord-ready\n")[2].split("\n")
    assert {line for line in said if line} == {f"{name}: ready" for name in _COMPONENTS}


def test_profiles_change_the_pods_of_plain_manifests(seen: Any) -> None:
    """Admission is asked through its service."""
    for name, qos, priority in (
        ("web", "LS", "koord-prod"),
        ("report", "BE", "koord-batch"),
        ("tally", "BE", "koord-batch"),
    ):
        check_profiled(seen[name], qos, priority)
    amounts = seen["report"]["spec"]["containers"][0]["resources"]
    assert amounts["requests"]["kubernetes.io/batch-cpu"] == "500"


def test_jobs_run_and_end(seen: Any) -> None:
    assert seen["tally says"] == "counted"
    assert seen["report files"] == {"cpu.shares": "512", "cpu.cfs_quota_us": "-1"}


def test_what_is_idle_is_offered(seen: Any) -> None:
    """NodeMetric and NodeSLO go round."""
    threshold = seen["slo"]["spec"]["resourceUsedThresholdWithBE"]
    assert (threshold["enable"], threshold["cpuSuppressPolicy"]) == (True, "cfsQuota")
    assert seen["metric"]["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"]
    assert seen["offered"] > 0


def test_batch_is_suppressed_within_two_rounds(seen: Any) -> None:
    assert seen["rounds to fall"] is not None, seen["rounds"]
    assert seen["rounds to fall"] <= 2, seen["rounds"]
    assert seen["batch quota"] > 0


def test_the_runtime_was_answered_and_the_kernel_took_all(seen: Any) -> None:
    assert {"Configure", "Synchronize", "CreateContainer"} <= set(seen["calls"])
    assert set(seen["calls"].values()) == {0}
    assert seen["problems"] == []


def test_koordlets_pod_serves_the_proxy_of_its_host(seen: Any) -> None:
    """Over the socket and the directory that the chart names, from a job's first instruction on."""
    assert seen["later"] == {
        "cpu.shares": "512", "cpu.cfs_quota_us": "-1", "memory.limit_in_bytes": str(64 << 20),
    }  # fmt: skip
    for told in (seen["hook server"], seen["proxy"]):
        calls = {each["method"]: each["failures"] for each in told["calls"]}
        assert calls["PreCreateContainer"] == 0
    assert [each["lastAnswerEmpty"] for each in seen["proxy"]["hookServers"]] == [False]


def test_pods_have_no_more_rights_than_they_need(seen: Any) -> None:
    """As the kernel has it: user, capabilities, and the runtime's seccomp profile (mode 2)."""
    nobody = "\t".join(["65532"] * 4)
    for name in _COMPONENTS - {"koordlet"}:
        assert seen["confinement"][name] == {
            "Uid": nobody, "CapEff": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2",
        }  # fmt: skip
    agent = seen["confinement"]["koordlet"]
    assert agent["CapEff"] == f"{sum(1 << number for number in _CAPABILITIES):016x}"
    assert (agent["NoNewPrivs"], agent["Seccomp"]) == ("1", "2")


def test_nothing_is_left_but_what_is_kept(seen: Any) -> None:
    """Definitions and their objects, unless `crds.keep` is false, and what the guide names."""
    left = dict(seen["left"])
    names = {name.removeprefix(_DEFINED) for name in left.pop("objects")}
    assert {name for name in names if not _is_defined(name)} == set()
    assert {each.split()[1] for each in left.pop("node")} == {
        "node.koordinator.sh/cpu-normalization-ratio",
        "node.koordinator.sh/originExtendedAllocatable",
    }
    # Within them the journal, and checkpoints if it ran long enough to write some.
    assert all(name.startswith(_FOLDERS) for name in left.pop("files"))
    assert left == {}, json.dumps(left)


def _is_defined(name: str) -> bool:
    groups = {file.name.partition("_")[0] for file in (ROOT / "deploy/crds").glob("*_*")}
    return any(group in name for group in groups)


def test_nothing_failed(seen: Any) -> None:
    assert seen["logs"] == []
