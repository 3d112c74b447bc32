# SPDX-License-Identifier: Apache-2.0
"""Suppression on one node: what it claims, when it holds still, how it gives back."""

from __future__ import annotations

import json

import pytest

from koord.agent.executor.claim import Layer
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies.cpusuppress import machine_cpus
from koord.agent.strategies.cpusuppress.strategy import CPUSuppress
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.agent.strategies.strategy_metrics import StrategyMetrics
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.slo_strategies import CgroupPath, HostApplication, ResourceThresholdStrategy
from koord.base.errors import KoordError
from koord.base.metrics import registry
from koord.kernels.cgroup_parse import Version
from tests.agent.strategies.fakes import FakeEvictor, FakeExecutor, FakeReader, machine
from tests.agent.strategies.nodes import NOW_MS, NOW_SECONDS, aged, node, pod, reported, tick
from tests.agent.strategies.options import gates

_ROOT = "kubepods.slice/kubepods-besteffort.slice"
_QUOTA, _CPUS = "cpu.cfs_quota_us", "cpuset.cpus"


def _status(cpus: str) -> dict[str, str]:
    return {"scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": cpus})}


class Scene:
    """A node of 8 CPUs with a service, and pods that hold CPUs 0 and 6 (LSR) and 7 (LSE)."""

    def __init__(self, tmp_path, *, on: str = "BECPUSuppress", version=Version.V2, cores=8, **of):
        self.machine = machine(tmp_path, cpus=cores, version=version)
        self.executor, self.reader = FakeExecutor(), FakeReader()
        self.hands = Actuators(self.executor, FakeEvictor())
        self.registry = registry()
        options = StrategyOptions(gates=gates(on), instruments=StrategyMetrics(self.registry, "n"))
        self.strategy = CPUSuppress(options)
        self.pods = [
            pod("ls", qos="LS", kube_qos="Burstable"),
            pod("lsr", qos="LSR", annotations=_status("0,6"), kube_qos="Guaranteed"),
            pod("lse", qos="LSE", annotations=_status("7"), kube_qos="Guaranteed"),
            pod("be", qos="BE"),
        ]
        self.node = node({"cpu": str(cores), "memory": "16Gi"})
        self.config = ResourceThresholdStrategy(
            enable=True, cpu_suppress_threshold_percent=65, cpu_suppress_policy="cpuset"
        )
        self.hosts: list[HostApplication] = []
        self.topology = reported(**of)
        be = next(each for each in self.pods if each.qos == "BE")
        root = tmp_path / "cgroup" / ("cpuset" if version is Version.V1 else "")
        for name in ("", "/cri-containerd-sandbox.scope"):
            (root / f"{be.directory}{name}").mkdir(parents=True, exist_ok=True)
        self.be_directories = [
            _ROOT, be.directory, f"{be.directory}/cri-containerd-sandbox.scope"
        ]  # fmt: skip

    def uses(self, total, **pods):
        self.reader.samples.clear()
        self.reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS, total)
        for name, cores in pods.items():
            self.reader.add(MetricKind.POD_CPU_USAGE, NOW_MS, cores, f"uid-{name}")
        return self

    def tick(self, **more):
        slo = NodeSLOSpec(resource_used_threshold_with_be=self.config, host_applications=self.hosts)
        return tick(
            self.machine, self.reader, pods=self.pods, of=self.node, slo=slo,
            topology=self.topology, **more,
        )  # fmt: skip

    def run(self):
        told = self.strategy.run(self.tick(), self.hands)
        self.executor.settle()
        return told


def _held(scene, cpus):
    scene.executor.files[_CPUS, _ROOT] = cpus
    return scene


@pytest.mark.parametrize(
    ("old", "reserved", "expected"),
    [
        ("7,6,3,2", "", "2-4"),
        ("7,6", "", "2-4"),
        ("7,6", "3", "0,4-5"),
        ("7,6", "1-6", None),
    ],
)
def test_the_examples_of_three_cores_on_eight_cpus(tmp_path, old, reserved, expected):
    keys = {}
    if reserved:
        keys["node.koordinator.sh/reservation"] = json.dumps({"reservedCPUs": reserved})
    scene = _held(Scene(tmp_path, **keys), old)
    # 65 % of 8 cores less 2.2 of the service leave 3 cores.
    told = scene.uses(2.2, ls=2.2).run()
    claims = scene.executor.of("cpusuppress").get((_CPUS, _ROOT), [])
    if expected is None:
        assert claims == []
        assert "note" in told
        return
    assert told["allowed_milli"] == 3000
    assert told["cpus"] == expected
    for directory in scene.be_directories:
        assert scene.executor.value(_CPUS, directory) == expected


@pytest.mark.parametrize(
    ("there", "managed", "expected", "unsuppressed"),
    [
        (True, True, "0,4-5", "0-2,4-6"),
        (False, True, "2-4", "0-6"),
        (True, False, "2-4", "0-6"),
    ],
)
def test_what_the_kubelet_gave_to_a_pod_alone_is_not_lent(
    tmp_path, there, managed, expected, unsuppressed
):
    given = [{"uid": "uid-own", "cpuset": "3", "managedByKubelet": managed}]
    keys = {"node.koordinator.sh/pod-cpu-allocs": json.dumps(given)}
    scene = _held(Scene(tmp_path, **keys), "7,6")
    if there:
        scene.pods.append(pod("own", kube_qos="Guaranteed"))
    assert scene.uses(2.2, ls=2.2).run()["cpus"] == expected
    scene.config.enable = False
    assert scene.run()["cpus"] == unsuppressed


def test_quota_goes_up_a_tenth_of_the_node_a_round_and_down_at_once(tmp_path):
    scene = Scene(tmp_path, cores=80)
    scene.config.cpu_suppress_policy = "cfsQuota"
    scene.executor.files[_QUOTA, _ROOT] = "1000000"
    # 65 % of 80 cores less 32 leave 20.
    assert scene.uses(32.0, ls=32.0).run()["quota_us"] == 1_800_000
    assert scene.run()["quota_us"] == 2_000_000
    claims = {c.layer: c.value for c in scene.executor.of("cpusuppress")[_QUOTA, _ROOT]}
    assert claims == {Layer.SET: -1, Layer.CAP: 2_000_000}
    # CPUs are given back whole: all but those of the LSE pod.
    assert scene.executor.value(_CPUS, scene.be_directories[2]) == "0-6,8-79"
    text = scene.registry.expose().decode()
    assert 'koordlet_be_suppress_cpu_cores{node="n",type="cfsQuota"} 20.0' in text
    assert 'koordlet_be_suppress_ls_used_cpu_cores{node="n"} 32.0' in text


def test_a_spike_is_followed_half_way_and_what_lasts_within_two_rounds(tmp_path):
    scene = Scene(tmp_path, cores=80)
    scene.config.cpu_suppress_policy = "cfsQuota"
    scene.executor.files[_QUOTA, _ROOT] = "-1"
    assert scene.uses(12.0, ls=12.0).run()["quota_us"] == 4_000_000
    assert scene.uses(32.0, ls=32.0).run()["quota_us"] == 3_000_000
    assert scene.run()["quota_us"] == 2_000_000


def test_best_effort_never_starves(tmp_path):
    scene = _held(Scene(tmp_path), "0-6")
    scene.executor.files[_QUOTA, _ROOT] = "-1"
    assert len(scene.uses(8.0, ls=8.0).run()["cpus"].replace("-", ",").split(",")) == 2
    scene.config.cpu_suppress_policy = "cfsQuota"
    assert scene.run()["quota_us"] == 2000


def test_all_cpus_taken_is_no_division_by_zero(tmp_path):
    scene = _held(Scene(tmp_path), "0-7")
    scene.pods[2] = pod("lse", qos="LSE", annotations=_status("0-7"), kube_qos="Guaranteed")
    told = scene.uses(1.0, ls=1.0).run()
    assert told["cpus"] == "0-7"
    assert (_CPUS, _ROOT) not in scene.executor.of("cpusuppress")


def test_kubelets_static_policy_narrows_containers_only(tmp_path):
    policy = {"kubelet.koordinator.sh/cpu-manager-policy": json.dumps({"policy": "static"})}
    scene = _held(Scene(tmp_path, **policy), "0-7")
    scene.uses(2.2, ls=2.2).run()
    assert [scene.executor.value(_CPUS, d) for d in scene.be_directories] == [
        "0-6", "0-6", "2-4"
    ]  # fmt: skip


def test_disabled_gives_everything_back(tmp_path):
    scene = _held(Scene(tmp_path), "7,6")
    scene.uses(2.2, ls=2.2).run()
    scene.config.enable = False
    assert scene.run()["state"] == "disabled"
    assert [scene.executor.value(_CPUS, d) for d in scene.be_directories] == ["0-6"] * 3
    assert scene.executor.value(_QUOTA, _ROOT) == -1


def test_left_to_the_manager_of_be_cpus(tmp_path):
    scene = Scene(tmp_path, on="BECPUManager")
    scene.pods[3] = pod("be", qos="BE", annotations=_status("1"))
    scene.uses(2.2, ls=2.2).run()
    root, of_pod, container = scene.be_directories
    assert scene.executor.value(_CPUS, root) == scene.executor.value(_CPUS, of_pod) == "0-6"
    assert scene.executor.value(_CPUS, container) is None


def test_usage_outside_known_pods_is_the_systems(tmp_path):
    scene = _held(Scene(tmp_path), "0-7")
    scene.node = node({"cpu": "8"}, reservation='{"resources":{"cpu":"2"}}')
    told = scene.uses(4.0, ls=1.0, unknown=1.0, be=1.0).run()
    assert told["service_cores"] == 1.0
    assert told["be_cores"] == 1.0
    # A pod that has just gone is within what is held back for the system.
    assert told["system_milli"] == 2000
    assert told["measured_milli"] == 2200


def test_quotas_need_no_reported_topology(tmp_path):
    scene = Scene(tmp_path)
    scene.topology = None
    scene.config.cpu_suppress_policy = "cfsQuota"
    scene.executor.files[_QUOTA, _ROOT] = "-1"
    assert scene.uses(2.2, ls=2.2).run()["quota_us"] == 300_000
    scene.config.cpu_suppress_policy = "cpuset"
    with pytest.raises(KoordError, match="NodeResourceTopology"):
        scene.run()
    assert scene.executor.value(_QUOTA, _ROOT) == -1
    scene.config.enable = False
    assert scene.run() == {"state": "disabled", "cpus": "unknown"}
    assert scene.executor.value(_QUOTA, _ROOT) == -1
    assert (_CPUS, _ROOT) not in scene.executor.of("cpusuppress")


def test_host_applications_count_unless_they_are_best_effort(tmp_path):
    scene = _held(Scene(tmp_path), "0-7")
    scene.uses(3.0, ls=1.0)
    for name in ("nginx", "rsync"):
        scene.reader.add(MetricKind.HOST_APPLICATION_CPU_USAGE, NOW_MS, 1.0, name)
    below = CgroupPath(base="KubepodsBesteffort")
    scene.hosts = [
        HostApplication(name="nginx", qos="LS"),
        HostApplication(name="rsync", qos="BE", cgroup_path=below),
        HostApplication(name="absent", qos="LS"),
    ]
    assert scene.run()["measured_milli"] == 5200 - 1000 - 1000


def test_cpu_held_back_counts_where_the_system_uses_less(tmp_path):
    scene = _held(Scene(tmp_path), "0-7")
    scene.node = node({"cpu": "8"}, {"cpu": "7"}, reservation='{"resources":{"cpu":"1500m"}}')
    assert scene.uses(1.0, ls=1.0).run()["measured_milli"] == 5200 - 1000 - 1500


def test_stale_pods_change_nothing(tmp_path):
    scene = _held(Scene(tmp_path), "0-7").uses(2.2, ls=2.2)
    scene.run()
    before = dict(scene.executor.claims)
    scene.uses(8.0, ls=8.0)
    with pytest.raises(KoordError, match="age"):
        scene.strategy.run(aged(scene.tick(), pods=601.0), scene.hands)
    assert scene.executor.claims == before


def test_services_are_protected_while_the_api_server_is_away(tmp_path):
    scene = _held(Scene(tmp_path), "0-7").uses(2.2, ls=2.2)
    scene.run()
    scene.uses(8.0, ls=8.0)
    away = aged(scene.tick(), pods=60.0, node=9000.0, slo=9000.0)
    assert scene.strategy.run(away, scene.hands)["measured_milli"] < 0


def test_without_usage_nothing_changes(tmp_path):
    scene = _held(Scene(tmp_path), "0-7").uses(2.2, ls=2.2)
    scene.run()
    before = dict(scene.executor.claims)
    scene.reader.samples.clear()
    scene.reader.add(MetricKind.NODE_CPU_USAGE, NOW_MS - 2001, 8.0)
    with pytest.raises(KoordError, match="node_cpu_usage"):
        scene.run()
    assert scene.executor.claims == before


def test_without_pods_nothing_changes_and_nothing_has_failed(tmp_path):
    """A node that is new, or whose kubelet has just begun, has none for a moment."""
    scene = _held(Scene(tmp_path), "0-7").uses(2.2, ls=2.2)
    scene.run()
    before = dict(scene.executor.claims)
    scene.pods.clear()
    assert scene.run() == {"state": "no pods on this node"}
    assert scene.executor.claims == before


def test_an_unset_switch_is_an_error_and_recovers_nothing(tmp_path):
    scene = _held(Scene(tmp_path), "0-7").uses(2.2, ls=2.2)
    scene.run()
    before = dict(scene.executor.claims)
    scene.config.enable = None
    with pytest.raises(KoordError, match="enable"):
        scene.run()
    assert scene.executor.claims == before


def test_stop_takes_everything_back(tmp_path):
    scene = _held(Scene(tmp_path), "0-7").uses(2.2, ls=2.2)
    scene.run()
    scene.strategy.stop(scene.hands)
    assert scene.executor.claims == {}


def test_directories_are_found_on_cgroup_v1_too(tmp_path):
    scene = _held(Scene(tmp_path, version=Version.V1), "7,6")
    scene.uses(2.2, ls=2.2).run()
    for directory in scene.be_directories:
        assert scene.executor.value(_CPUS, directory) == "2-4"


def test_cgroups_are_listed_when_something_changes_or_ten_seconds_have_passed(
    tmp_path, monkeypatch
):
    scene = _held(Scene(tmp_path), "0-7")
    scene.pods = tuple(scene.pods)
    listed = []
    beneath = machine_cpus.cgroups_under
    monkeypatch.setattr(
        machine_cpus, "cgroups_under", lambda *a: (listed.append(a), beneath(*a))[1]
    )

    def listings(passed: float) -> int:
        before = len(listed)
        scene.strategy.run(scene.tick(now_seconds=NOW_SECONDS + passed), scene.hands)
        return len(listed) - before

    scene.uses(2.2, ls=2.2)
    assert [listings(at) for at in (0, 1, 9, 10, 11, 20)] == [1, 0, 0, 1, 0, 1]
    scene.pods = (*scene.pods,)[:-1]
    assert [listings(at) for at in (21, 22)] == [1, 0]
    scene.uses(4.9, ls=4.9)
    assert listings(23) == 1


def test_the_same_cgroups_with_the_same_cpus_are_claimed_by_the_same_object(tmp_path, monkeypatch):
    scene = _held(Scene(tmp_path), "0-7").uses(2.2, ls=2.2)
    scene.pods = tuple(scene.pods)
    stated = []
    state = scene.executor.state
    monkeypatch.setattr(
        scene.executor,
        "state",
        lambda owner, scope, claims: (stated.append((scope, claims)), state(owner, scope, claims)),
    )

    def claims(passed: float) -> list[object]:
        scene.strategy.run(scene.tick(now_seconds=NOW_SECONDS + passed), scene.hands)
        return [each for scope, each in stated if scope == "cpuset"][-1]

    first = claims(0)
    assert claims(1) is first
    assert claims(10) is first, "listed again, and nothing is new"
    sandbox = scene.be_directories[-1]
    (tmp_path / "cgroup" / sandbox).with_name("cri-containerd-new.scope").mkdir()
    assert claims(19) is first
    assert len(claims(20)) == len(first) + 2, "one more, with what it has and is narrowed to"
