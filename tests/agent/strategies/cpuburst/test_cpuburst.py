# SPDX-License-Identifier: Apache-2.0
"""Burst on one node: what it claims for pods and containers, round after round."""

from __future__ import annotations

import json

import pytest

from koord.agent.executor.claim import Claim, Layer
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies.cpuburst.strategy import CPUBurst
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.agent.strategies.strategy_metrics import StrategyMetrics
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.slo_strategies import CPUBurstStrategy
from koord.base.errors import KoordError
from koord.base.metrics import registry
from koord.kernels.cgroup_parse import Version
from tests.agent.strategies.fakes import FakeEvictor, FakeExecutor, FakeReader, machine
from tests.agent.strategies.nodes import NOW_MS, NOW_SECONDS, node, pod, resources, tick

_QUOTA, _BURST = "cpu.cfs_quota_us", "cpu.cfs_burst_us"


class Scene:
    """A node of 8 CPUs; one pod with a container of 2 cores and one of half a core."""

    def __init__(self, tmp_path, version=Version.V2, **config):
        self.machine = machine(tmp_path, version=version)
        self.executor, self.reader = FakeExecutor(), FakeReader()
        self.hands = Actuators(self.executor, FakeEvictor())
        self.registry = registry()
        self.strategy = CPUBurst(StrategyOptions(instruments=StrategyMetrics(self.registry, "n")))
        settings = {
            "policy": "auto", "cpu_burst_percent": 1000, "cfs_quota_burst_percent": 300,
            "cfs_quota_burst_period_seconds": -1, "share_pool_threshold_percent": 50,
        }  # fmt: skip
        self.config = CPUBurstStrategy(**{**settings, **config})
        self.pods = [self.pod()]
        self.now = 0
        self.throttled: dict[str, float] = {}
        self.usage: dict[str, float] = {}
        self.busy = 1.0

    @staticmethod
    def pod(**more):
        return pod(
            "web",
            containers=[
                {"name": "big", "resources": resources(cpu="2")},
                {"name": "small", "resources": resources(cpu="500m")},
            ],
            **more,
        )

    def files(self):
        """The files as the kubelet and the runtime make them."""
        big, small = (c.directory for c in self.pods[0].containers)
        self.executor.files |= {
            (_QUOTA, big): "200000", (_QUOTA, small): "50000",
            (_QUOTA, self.pods[0].directory): "250000",
        }  # fmt: skip
        return self

    def run(self):
        self.now += 1
        at = NOW_MS + 1000 * self.now
        self.reader.samples.clear()
        self.reader.add(MetricKind.NODE_CPU_USAGE, at, self.busy)
        for name, ratio in self.throttled.items():
            self.reader.add(MetricKind.CONTAINER_CPU_THROTTLED, at, ratio, f"containerd://{name}")
        for name, cores in self.usage.items():
            self.reader.add(MetricKind.CONTAINER_CPU_USAGE, at, cores, f"containerd://{name}")
        view = tick(
            self.machine, self.reader, pods=self.pods, of=node({"cpu": "8"}),
            slo=NodeSLOSpec(cpu_burst_strategy=self.config),
            now_seconds=NOW_SECONDS + self.now, now_ms=at,
        )  # fmt: skip
        told = self.strategy.run(view, self.hands)
        self.executor.settle()
        return told

    def quota(self, at=None):
        directory = self.pods[0].directory
        if at is not None:
            directory = self.pods[0].containers[at].directory
        raised = [
            c.value for c in self.executor.of("cpuburst").get((_QUOTA, directory), ())
            if c.layer is Layer.RAISE
        ]  # fmt: skip
        return raised[0] if raised else None

    def burst(self, at=None):
        directory = self.pods[0].directory
        if at is not None:
            directory = self.pods[0].containers[at].directory
        return self.executor.of("cpuburst")[_BURST, directory][0].value


def test_a_throttled_container_and_its_pod_go_up_a_fifth(tmp_path):
    scene = Scene(tmp_path).files()
    scene.throttled = {"web-c0": 0.5, "web-c1": 0.0}
    told = scene.run()
    assert (scene.quota(0), scene.quota(1), scene.quota()) == (240_000, None, 290_000)
    assert told["raised_us"] == {"default/web/big": 240_000}
    scene.run()
    assert (scene.quota(0), scene.quota()) == (288_000, 338_000)
    for _ in range(20):
        scene.run()
    assert (scene.quota(0), scene.quota()) == (600_000, 650_000)
    text = scene.registry.expose().decode()
    assert 'container_id="containerd://web-c0"' in text
    assert "koordlet_container_scaled_cfs_quota_us" in text


def test_overload_goes_down_to_the_base_and_no_further(tmp_path):
    scene = Scene(tmp_path).files()
    scene.throttled = {"web-c0": 0.5}
    for _ in range(3):
        scene.run()
    scene.busy = 7.0
    assert scene.run()["node"] == "overload"
    assert scene.quota(0) == int(int(int(200_000 * 1.2) * 1.2) * 1.2 * 0.8)
    for _ in range(10):
        scene.run()
    assert (scene.quota(0), scene.quota()) == (None, None)


def test_cooling_and_unknown_hold_what_there_is(tmp_path):
    scene = Scene(tmp_path).files()
    scene.throttled = {"web-c0": 0.5}
    scene.run()
    scene.busy = 3.7
    for expected in ("cooling", "cooling"):
        # Averages of five seconds: the window holds only this round's sample.
        assert scene.run()["node"] == expected
        assert scene.quota(0) == 240_000


def test_switching_quota_burst_off_resets(tmp_path):
    scene = Scene(tmp_path).files()
    scene.throttled = {"web-c0": 0.5}
    scene.run()
    scene.config.policy = "cpuBurstOnly"
    scene.run()
    assert scene.quota(0) is None
    assert scene.burst(0) > 0
    scene.config.policy = "none"
    scene.run()
    assert scene.burst(0) == 0


@pytest.mark.parametrize("version", [Version.V1, Version.V2])
def test_bursts_are_claimed_as_the_spec_says_whatever_the_kernel_takes(tmp_path, version):
    scene = Scene(tmp_path, version).files()
    scene.throttled = {"web-c0": 0.5}
    scene.run()
    assert (scene.burst(0), scene.burst(1), scene.burst()) == (2_000_000, 500_000, 2_500_000)


def test_a_normalized_quota_is_the_base(tmp_path):
    scene = Scene(tmp_path).files()
    big = scene.pods[0].containers[0].directory
    scene.executor.state("hooks", "web", [
        Claim(_QUOTA, big, 200_000, "limit"), Claim(_QUOTA, big, 1.25, "slow", Layer.SCALE)
    ])  # fmt: skip
    scene.executor.settle()
    assert scene.executor.files[_QUOTA, big] == "160000"
    scene.throttled = {"web-c0": 0.5}
    scene.run()
    assert scene.quota(0) == 192_000
    assert scene.executor.files[_QUOTA, big] == "192000"


def test_no_quota_is_never_raised(tmp_path):
    scene = Scene(tmp_path).files()
    big = scene.pods[0].containers[0].directory
    scene.executor.state("hooks", "web", [Claim(_QUOTA, big, -1, "CPUs of its own")])
    scene.throttled = {"web-c0": 0.5}
    scene.run()
    assert scene.quota(0) is None


def test_a_limited_burst_ends_and_comes_back(tmp_path):
    scene = Scene(tmp_path, cfs_quota_burst_period_seconds=10).files()
    scene.throttled = {"web-c0": 0.5}
    # 2000 tokens hold, 500 to begin with; 250 percent of the limit cost 150 a second.
    scene.usage = {"web-c0": 5.0}
    quotas = []
    for _ in range(6):
        scene.run()
        quotas.append(scene.quota(0))
    assert quotas == [240_000, 288_000, 345_600, 414_720, 331_776, 265_420]
    # 10 percent of the limit save 90 a second.
    scene.usage = {"web-c0": 0.2}
    back = []
    for _ in range(4):
        scene.run()
        back.append(scene.quota(0))
    assert back == [212_336, None, 240_000, 288_000]


@pytest.mark.parametrize("qos", ["LSE", "LSR", "BE"])
def test_other_classes_are_left_alone(tmp_path, qos):
    scene = Scene(tmp_path)
    scene.pods = [Scene.pod(qos=qos)]
    assert scene.run()["containers"] == 0
    assert scene.executor.claims == {}


def test_a_pods_annotation_overlays_the_node(tmp_path):
    scene = Scene(tmp_path, policy="none")
    text = json.dumps({"policy": "cpuBurstOnly", "cpuBurstPercent": 50})
    scene.pods = [Scene.pod(annotations={"koordinator.sh/cpuBurst": text})]
    scene.files().run()
    assert (scene.burst(0), scene.burst(1)) == (100_000, 25_000)
    scene.pods = [Scene.pod(annotations={"koordinator.sh/cpuBurst": "{"})]
    scene.run()
    assert scene.burst(0) == 0


def test_a_pod_that_left_has_no_claims(tmp_path):
    scene = Scene(tmp_path).files()
    scene.run()
    assert scene.executor.claims
    scene.pods = []
    scene.run()
    assert scene.executor.claims == {}


def test_no_strategy_is_an_error(tmp_path):
    scene = Scene(tmp_path)
    scene.config = None
    with pytest.raises(KoordError, match="cpuBurstStrategy"):
        scene.run()


def test_stop_takes_everything_back(tmp_path):
    scene = Scene(tmp_path).files()
    scene.run()
    scene.strategy.stop(scene.hands)
    assert scene.executor.claims == {}


def test_claims_are_made_anew_only_when_something_changed(tmp_path, monkeypatch):
    scene = Scene(tmp_path).files()
    stated = []
    state = scene.executor.state
    monkeypatch.setattr(scene.executor, "state", lambda *a: (stated.append(a[2]), state(*a))[1])
    scene.pods = (scene.pods[0],)
    for _ in range(3):
        scene.run()
    first, *same = stated
    assert [claims is first for claims in same] == [True, True]
    scene.throttled = {"web-c0": 0.5}
    scene.run()
    assert (scene.quota(0), stated[-1] is first) == (240_000, False)
    scene.pods = (Scene.pod(annotations={"koordinator.sh/cpuBurst": '{"policy": "none"}'}),)
    scene.run()
    assert (scene.burst(0), scene.quota(0)) == (0, None)


def test_series_stay_while_nothing_changes_and_go_with_their_pod(tmp_path):
    scene = Scene(tmp_path).files()
    scene.pods = (scene.pods[0],)
    for _ in range(2):
        scene.run()
    line = 'container_id="containerd://web-c0"'
    assert line in scene.registry.expose().decode()
    scene.pods = ()
    scene.run()
    assert line not in scene.registry.expose().decode()
