# SPDX-License-Identifier: Apache-2.0
"""What holds of a story on every node, whichever machine it is."""

from __future__ import annotations

from typing import Any, ClassVar

from koord.kernels.cpuset import CPUSet
from tests.real.binaries import KUBERNETES

_QOS = "koordinator.sh/qosClass"


def check_profiled(pod: Any, qos: str, priority: str) -> None:
    """That a profile has given a pod its class, its priority and its scheduler."""
    assert pod["metadata"]["labels"][_QOS] == qos
    assert pod["spec"]["priorityClassName"] == priority
    assert pod["spec"]["schedulerName"] == "koord-scheduler"


class Judgement:
    """Tests of figures, for a class of tests to inherit; ``seen`` is a fixture of its module.

    Attributes:
        no_quota: what a container's quota says where it has none.
        whole_cpu: the weight of a CPU.
    """

    no_quota: ClassVar = "-1"
    whole_cpu: ClassVar = "1024"

    def test_the_node_is_ready(self, seen: Any) -> None:
        info = seen["node"]["status"]["nodeInfo"]
        assert info["kubeletVersion"] == f"v{KUBERNETES}"
        assert info["containerRuntimeVersion"].startswith("containerd://2.")

    def test_koordlet_reads_pods_from_the_kubelets_secure_port(self, seen: Any) -> None:
        """With its own account's token, and the kubelet's certificate checked."""
        for path in ("/pods/", "/configz"):
            assert any(f'code="200",path="{path}"' in line for line in seen["kubelet calls"])
        assert all('code="200"' in line for line in seen["kubelet calls"])

    def test_profiles_change_the_pods_of_plain_manifests(self, seen: Any) -> None:
        for name, qos, priority in (
            ("bound", "LSR", "koord-prod"),
            ("web", "LS", "koord-prod"),
            ("batch", "BE", "koord-batch"),
        ):
            check_profiled(seen[name], qos, priority)
        amounts = seen["batch"]["spec"]["containers"][0]["resources"]
        assert amounts["requests"]["kubernetes.io/batch-cpu"] == "1k"
        assert "cpu" not in amounts["limits"]

    def test_bound_cpus_are_there_at_the_first_line(self, seen: Any) -> None:
        """Those that koord-scheduler chose, one of all; the kubelet had asked for a quota."""
        assert len(CPUSet.parse(seen["chosen"])) == 1
        assert seen["bound says"] == ["Cpus_allowed_list:", seen["chosen"]]
        assert seen["bound files"] == {
            "cpuset.cpus": seen["chosen"],
            "cpu.cfs_quota_us": self.no_quota,
        }

    def test_bound_cpus_stay_when_a_pod_is_resized_in_place(self, seen: Any) -> None:
        """And its quota stays away, which the kubelet sets anew."""
        assert seen["bound resized"] == {
            "cpuset.cpus": seen["chosen"], "cpu.cfs_quota_us": self.no_quota,
            "memory.limit_in_bytes": str(48 << 20),
        }  # fmt: skip

    def test_logs_and_exec_reach_containers(self, seen: Any) -> None:
        assert (seen["logs"], seen["exec"]) == ("serving", "it is I")

    def test_a_reservation_is_used_by_its_pod(self, seen: Any) -> None:
        kept = seen["reservation"]
        assert kept["status"]["nodeName"] == "node"
        assert seen["expected"] == {"name": "kept", "uid": kept["metadata"]["uid"]}
        assert [each["name"] for each in seen["owners"]] == ["expected"]

    def test_what_is_idle_is_offered(self, seen: Any) -> None:
        """NodeMetric and NodeSLO go round: what agents report, and how they are to protect."""
        threshold = seen["slo"]["spec"]["resourceUsedThresholdWithBE"]
        assert (threshold["enable"], threshold["cpuSuppressPolicy"]) == (True, "cfsQuota")
        reported = seen["metric"]["status"]
        assert {each["name"] for each in reported["podsMetric"]} == _pods(seen)
        # Nine tenths of the node, less what it uses and what bound pods hold.
        cpus = 1000 * int(seen["node"]["status"]["capacity"]["cpu"])
        assert 0 < seen["offered"] < cpus * 0.9
        assert 1000 <= seen["offered later"] < cpus * 0.9

    def test_batch_has_its_shares(self, seen: Any) -> None:
        """And no quota of its own: suppression by quota limits all of batch together."""
        assert seen["batch files"] == {
            "cpu.shares": self.whole_cpu,
            "cpu.cfs_quota_us": self.no_quota,
        }

    def test_batch_memory_is_limited(self, seen: Any) -> None:
        """The kubelet knows of no memory in batch resources."""
        assert seen["batch memory"] == str(64 << 20)

    def test_batch_is_suppressed_within_two_rounds(self, seen: Any) -> None:
        assert seen["rounds to fall"] is not None, seen["rounds"]
        assert seen["rounds to fall"] <= 2, seen["rounds"]

    def test_batch_is_evicted_by_rule(self, seen: Any) -> None:
        name = seen["batch"]["metadata"]["name"]
        told = f"trigger by koordlet feature BECPUEvict, kill pod: {name}"
        assert seen["evictions"] == [told]

    def test_the_runtime_was_answered_and_the_kernel_took_all(self, seen: Any) -> None:
        assert {"Configure", "Synchronize", "CreateContainer", "UpdateContainer"} <= set(
            seen["calls"]
        )
        assert set(seen["calls"].values()) == {0}
        assert seen["problems"] == []


def _pods(seen: Any) -> set[str]:
    return {"expected", *(seen[name]["metadata"]["name"] for name in ("bound", "web"))}
