# SPDX-License-Identifier: Apache-2.0
"""What the agent knows: the kubelet's answers, ages, defaults, and what survives an outage."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.states.cgroup_events import DirectoryEvents
from koord.agent.states.cluster_informers import ClusterStates
from koord.agent.states.effective_specs import effective_metric_spec, effective_slo
from koord.agent.states.kubelet import Kubelet, kubelet_config, kubelet_server
from koord.agent.states.pod_poller import PodPoller, pod_states
from koord.agent.states.pod_state import ContainerKind, PodState
from koord.agent.states.snapshot import Snapshot, SnapshotPart, Timestamped
from koord.agent.states.state_store import StateStore
from koord.api import crds
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetricSpec
from koord.api.kinds.nodeslo import NodeSLO, NodeSLOSpec
from koord.api.kinds.pod import Pod
from koord.api.objects import decode_as
from koord.base.clock import SystemClock, VirtualClock
from koord.base.errors import KoordError
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kernels.cgroup_path import Driver, KubeQos
from koord.kube.client import Client
from koord.kube.crds import install
from koord.kube.errors import TransportError
from koord.kube.transport.config import ClusterConfig
from koord.kube.transport.messages import Request, Response
from tests.kube.harness import run, run_virtual

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = CgroupLayout(Driver.SYSTEMD)


def document(name: str, uid: str = "", **status: Any) -> dict[str, Any]:
    """A burstable LS pod as a kubelet gives it: without apiVersion and kind."""
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    init = [{"name": "wait"}, {"name": "log", "restartPolicy": "Always"}]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"{name}-uid",
            "labels": {"koordinator.sh/qosClass": "LS"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "main", "resources": resources}], "initContainers": init},
        "status": {"phase": "Running", **status},
    }


class Scripted:
    """A kubelet that answers what it is told to."""

    def __init__(self) -> None:
        self.answers: dict[str, Response | Exception] = {}
        self.asked: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        answer = self.answers[request.path]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def open(self, request: Request) -> Any:
        raise AssertionError(request)

    async def close(self) -> None:
        pass

    def pods(self, *items: Any) -> None:
        self.answers["/pods/"] = Response(200, json.dumps({"items": items}).encode())


def test_a_pod_knows_its_classes_its_cgroup_and_its_containers() -> None:
    statuses = {
        "containerStatuses": [
            {"name": "main", "containerID": "containerd://abc", "state": {"running": {}}}
        ],
        "initContainerStatuses": [
            {"name": "wait", "containerID": "containerd://def", "state": {"terminated": {}}},
            {"name": "log", "containerID": "", "state": {"waiting": {}}},
        ],
    }
    (state,) = pod_states([decode_as(document("web", "1-2", **statuses), Pod)], LAYOUT)
    assert (state.qos, state.kube_qos, state.active) == ("LS", KubeQos.BURSTABLE, True)
    parent = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"
    assert state.directory == parent
    assert [(c.kind, c.running, c.directory) for c in state.containers] == [
        (ContainerKind.REGULAR, True, f"{parent}/cri-containerd-abc.scope"),
        (ContainerKind.INIT, False, f"{parent}/cri-containerd-def.scope"),
        (ContainerKind.SIDECAR, False, ""),
    ]


def test_a_hostile_pod_is_left_out_and_the_others_stay() -> None:
    good, bad = document("good"), document("bad", "../../etc")
    states = pod_states([decode_as(item, Pod) for item in (good, bad)], LAYOUT)
    assert [state.key for state in states] == ["default/good"]


def test_the_kubelet_is_asked_for_pods_and_configuration() -> None:
    transport = Scripted()
    transport.pods(document("a"), {"metadata": {"name": "bad"}, "spec": {"containers": 3}})
    config = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1", "logging": {"x": 1}}
    body = json.dumps({"kubeletconfig": config}).encode()
    transport.answers["/configz"] = Response(200, body)
    kubelet = Kubelet(transport, timeout_seconds=3.0)
    assert [pod.metadata.name for pod in run(kubelet.pods())] == ["a"]
    found = run(kubelet.configuration())
    assert (found.cpu_manager_policy, found.reserved_system_cpus) == ("static", "0-1")
    assert {request.timeout_seconds for request in transport.asked} == {3.0}
    transport.answers["/pods/"] = Response(403, b"Forbidden")
    with pytest.raises(KoordError, match=r"/pods/: status: got 403, expected 200: .*nodes/pods"):
        run(kubelet.pods())
    transport.answers["/configz"] = Response(403, b"Forbidden")
    with pytest.raises(KoordError, match=r"nodes/configz .* or --disable-query-kubelet-config"):
        run(kubelet.configuration())


def test_a_pod_told_in_the_same_words_is_the_same_whatever_the_order() -> None:
    transport = Scripted()
    kubelet = Kubelet(transport)

    def polled(before: tuple[PodState, ...] = ()) -> tuple[PodState, ...]:
        return pod_states(run(kubelet.pods()), LAYOUT, before)

    transport.pods(document("a"), document("b"))
    a, b = polled()
    transport.pods(document("c"), document("b"), document("a", reason="changed"))
    changed, same, new = polled((a, b))
    assert same is b
    assert (changed.key, changed.pod.status.reason, a.pod.status.reason) == (a.key, "changed", "")
    assert new.key == "default/c"
    transport.pods(document("b"))
    assert polled()[0].pod is b.pod


def test_where_the_kubelet_listens() -> None:
    status: dict[str, Any] = {
        "addresses": [
            {"type": "Hostname", "address": "n1"},
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "fd00::1"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10260}},
    }
    node = decode_as({"metadata": {"name": "n1"}, "status": status}, Node)
    assert kubelet_server(node) == "https://10.0.0.1:10260"
    assert kubelet_server(node, ("ExternalIP", "Hostname")) == "https://n1:10260"
    assert kubelet_server(node, read_only_port=10255) == "http://10.0.0.1:10255"
    node.status.addresses = node.status.addresses[2:]
    node.status.daemon_endpoints.kubelet_endpoint.port = 0
    assert kubelet_server(node) == "https://[fd00::1]:10250"
    node.status.addresses = []
    with pytest.raises(KoordError, match=r"status\.addresses: got \[\]"):
        kubelet_server(node)


def test_credentials_never_go_over_plain_http() -> None:
    cluster = ClusterConfig("https://api:6443", ca="/ca.pem", token="secret")
    served = kubelet_config(cluster, "https://10.0.0.1:10250", "", verify=True)
    assert (served.authorization, served.ca, served.verify) == ("Bearer secret", "/ca.pem", True)
    plain = kubelet_config(cluster, "http://10.0.0.1:10255", "", verify=True)
    assert (plain.authorization, plain.token) == ("", "")


def test_renewed_credentials_reach_the_kubelet() -> None:
    after = ClusterConfig("https://api:6443", token="new")
    before = ClusterConfig("https://api:6443", token="old", reload=lambda: after)
    assert kubelet_config(before, "https://k:1", "", True).renewed().token == "new"


def test_a_pod_that_is_left_out_at_every_poll_is_told_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    clock = VirtualClock(1_700_000_000.0)

    async def story() -> None:
        transport, store = Scripted(), StateStore(clock)
        source = PodPoller(Kubelet(transport).pods, LAYOUT, store, clock, 10, tmp_path)
        bad, worse = document("bad"), document("worse")
        bad["metadata"]["uid"] = "../x"  # No directory has such a name.
        worse["metadata"]["labels"] = 1  # Not readable at all.
        transport.pods(document("a"), bad, worse)
        running = asyncio.create_task(source.run())
        await source.ready()
        await asyncio.sleep(35)  # Three polls more.
        assert [r.getMessage() for r in caplog.records] == ["pod left out"] * 2
        # It is gone for a poll: one of the same name is told of again.
        transport.pods(document("a"))
        await asyncio.sleep(10)
        transport.pods(document("a"), bad)
        await asyncio.sleep(10)
        assert [r.getMessage() for r in caplog.records] == ["pod left out"] * 3
        running.cancel()
        await asyncio.wait({running})

    run_virtual(story(), clock)


def test_an_outage_keeps_the_pods_and_lets_them_age(tmp_path: Path) -> None:
    clock = VirtualClock(1_700_000_000.0)

    async def story() -> None:
        transport, store = Scripted(), StateStore(clock)
        source = PodPoller(Kubelet(transport).pods, LAYOUT, store, clock, 10, tmp_path)
        transport.pods(document("a"))
        running = asyncio.create_task(source.run())
        await source.ready()
        first = store.snapshot().pods
        directory = tmp_path / first.value[0].directory.lstrip("/")
        directory.mkdir(parents=True)
        await asyncio.sleep(12)
        assert store.snapshot().pods.value is first.value
        assert store.snapshot().pods.age_seconds(clock.monotonic_seconds()) == pytest.approx(2)
        for outage in (TransportError("gone", sent=False), Response(500, b""), Response(200, b"{")):
            transport.answers["/pods/"] = outage
            await asyncio.sleep(10)
        transport.pods()
        await asyncio.sleep(10)
        kept = store.snapshot().pods
        assert [pod.key for pod in kept.value] == ["default/a"]
        assert kept.age_seconds(clock.monotonic_seconds()) == pytest.approx(42)
        # The node was emptied: the kubelet has taken its cgroup away.
        directory.rmdir()
        await asyncio.sleep(10)
        none = store.snapshot().pods
        assert (none.value, none.age_seconds(clock.monotonic_seconds())) == ((), pytest.approx(2))
        transport.pods(document("b"))
        asked = len(transport.asked)
        for _ in range(30):
            source.poke()
            await asyncio.sleep(0.01)
        assert [pod.key for pod in store.snapshot().pods.value] == ["default/b"]
        # Ten at once and five a second: never a poll an event.
        assert 10 <= len(transport.asked) - asked <= 12
        running.cancel()
        await asyncio.wait({running})

    run_virtual(story(), clock)


def test_a_node_without_pods_is_known_to_have_none(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """As a real kubelet tells of a new node, until the first pod is placed there."""
    clock = VirtualClock(1_700_000_000.0)

    async def story() -> None:
        transport, store = Scripted(), StateStore(clock)
        source = PodPoller(Kubelet(transport).pods, LAYOUT, store, clock, 10, tmp_path)
        transport.pods()
        running = asyncio.create_task(source.run())
        await source.ready()
        await asyncio.sleep(62)
        none = store.snapshot().pods
        assert (none.value, none.age_seconds(clock.monotonic_seconds())) == ((), pytest.approx(2))
        assert caplog.records == []
        running.cancel()
        await asyncio.wait({running})

    run_virtual(story(), clock)


def test_followers_hear_of_their_parts_once_a_burst() -> None:
    async def story() -> list[SnapshotPart]:
        store, heard = StateStore(VirtualClock()), []
        store.subscribe(SnapshotPart.SLO | SnapshotPart.PODS, lambda _, parts: heard.append(parts))
        store.subscribe(SnapshotPart.SLO, lambda *_: 1 / 0)  # type: ignore[arg-type]
        slo = effective_slo(NodeSLOSpec())
        store.put(SnapshotPart.SLO, slo)
        store.put(SnapshotPart.PODS, ())
        store.put(SnapshotPart.NODE, Node())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # The same again is a confirmation, not a change.
        store.put(SnapshotPart.SLO, effective_slo(NodeSLOSpec()))
        await asyncio.sleep(0)
        assert store.snapshot().slo.value is slo
        return heard

    assert run_virtual(story()) == [SnapshotPart.SLO]
    assert Snapshot().pods == Timestamped(())
    assert Timestamped(1).age_seconds(5.0) == float("inf")


def test_a_nodeslo_is_laid_over_its_defaults() -> None:
    text = {
        "metadata": {"name": "n1"},
        "spec": {
            "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": 60},
            "resourceQOSStrategy": {
                "beClass": {"cpuQOS": {"enable": True}, "memoryQOS": {"enable": False}},
                "systemClass": {"cpuQOS": {"enable": False, "groupIdentity": 1}},
            },
        },
    }
    spec = effective_slo(decode_as(text, NodeSLO).spec)
    threshold, qos = spec.resource_used_threshold_with_be, spec.resource_qos_strategy
    assert threshold is not None
    assert (threshold.cpu_suppress_threshold_percent, threshold.memory_evict_threshold_percent) == (
        60,
        70,
    )
    assert threshold.cpu_suppress_policy == "cpuset"
    assert qos is not None
    assert qos.be_class is not None
    assert qos.lsr_class is not None
    # Enabled: the recommended value; off: neutral ones, also where the default is another.
    assert qos.be_class.cpu_qos is not None
    assert qos.be_class.cpu_qos.group_identity == -1
    assert qos.be_class.memory_qos is not None
    assert (qos.be_class.memory_qos.wmark_ratio, qos.be_class.memory_qos.enable) == (0, False)
    assert qos.lsr_class.cpu_qos is not None
    assert qos.lsr_class.cpu_qos.group_identity == 0
    # The system class is no pod's: it keeps what it says.
    assert qos.system_class is not None
    assert qos.system_class.cpu_qos is not None
    assert qos.system_class.cpu_qos.group_identity == 1
    assert spec.cpu_burst_strategy is not None
    assert spec.cpu_burst_strategy.policy == "none"


def test_times_of_reports_have_floors() -> None:
    def times(**policy: Any) -> tuple[int | None, int | None]:
        text = {"metadata": {"name": "n"}, "spec": {"metricCollectPolicy": policy}}
        from koord.api.kinds.nodemetric import NodeMetric

        spec = effective_metric_spec(decode_as(text, NodeMetric).spec)
        assert spec.metric_collect_policy is not None
        chosen = spec.metric_collect_policy
        return chosen.aggregate_duration_seconds, chosen.report_interval_seconds

    assert times() == (300, 60)
    assert times(aggregateDurationSeconds=10, reportIntervalSeconds=5) == (60, 30)
    assert times(aggregateDurationSeconds=600, reportIntervalSeconds=31) == (600, 31)
    policy = effective_metric_spec(NodeMetricSpec()).metric_collect_policy
    assert policy is not None
    assert policy.node_aggregate_policy is not None
    assert len(policy.node_aggregate_policy.durations) == 3


def test_a_new_cgroup_is_seen_at_once(tmp_path: Path) -> None:
    async def story() -> int:
        seen = asyncio.Event()
        events = DirectoryEvents([str(tmp_path), str(tmp_path / "missing")], seen.set)
        running = asyncio.create_task(events.run())
        await asyncio.sleep(0)
        (tmp_path / "file").write_text("")
        await asyncio.sleep(0.05)
        assert not seen.is_set()
        (tmp_path / "pod1").mkdir()
        await seen.wait()
        running.cancel()
        await asyncio.wait({running})
        return events.watched

    assert run(story()) == 1


def test_parts_come_from_the_api_server_and_silence_confirms_them() -> None:
    clock = VirtualClock(1_700_000_000.0)

    async def story() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            async for _ in install(client, crds()):
                pass
            await client.create(Node(metadata=ObjectMeta(name="n1")))
            store = StateStore(clock)
            states = ClusterStates(client, "n1", store, LAYOUT)
            running = asyncio.create_task(states.run())
            await states.ready()
            assert store.snapshot().slo.value is None
            await client.create(NodeSLO(metadata=ObjectMeta(name="n1")))
            await client.create(NodeSLO(metadata=ObjectMeta(name="other")))
            pod = decode_as({**document("a"), "apiVersion": "v1", "kind": "Pod"}, Pod)
            pod.metadata.uid, pod.spec.node_name = "", "n1"
            pod.spec.containers[0].image = "x"
            pod.spec.init_containers = []
            await client.create(pod)
            await asyncio.sleep(100)
            snapshot, now = store.snapshot(), clock.monotonic_seconds()
            assert [state.key for state in snapshot.pods.value] == ["default/a"]
            for part in (snapshot.node, snapshot.slo, snapshot.pods):
                assert part.value is not None
                assert part.age_seconds(now) <= 10
            await client.delete(Pod, "a", "default", grace_period_seconds=0)
            await asyncio.sleep(1)
            assert store.snapshot().pods.value == ()
            running.cancel()
            await asyncio.wait({running})

    run_virtual(story(), clock)


def test_what_a_nodeslo_cannot_say_and_what_goes_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock(1_700_000_000.0)
    text = """{"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
      "metadata": {"name": "n1"}, "spec": {
        "resourceUsedThresholdWithBE": {"enable": true, "cpuSuppressPolicy": "magic"},
        "cpuBurstStrategy": {"policy": "always"},
        "resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": true, "groupIdentity": 7}}},
        "systemStrategy": {"totalNetworkBandwidth": "-1", "watermarkScaleFactor": 99999}}}"""

    def said() -> list[str]:
        found = [f"{r.getMessage()}: {vars(r)['koord_fields']}" for r in caplog.records]
        caplog.clear()
        return found

    async def story() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            await client.create(Node(metadata=ObjectMeta(name="n1")))
            states = ClusterStates(client, "n1", StateStore(clock), LAYOUT)
            states._put_slo(NodeSLO(metadata=ObjectMeta(name="n1")))
            states._put_slo(decode_as(json.loads(text), NodeSLO))
            assert said() == [
                f"a value that cannot be: {{'error': {error!r}}}"
                for error in (
                    "NodeSLO n1: spec.resourceUsedThresholdWithBE.cpuSuppressPolicy: got 'magic',"
                    " expected one of cpuset, cfsQuota",
                    "NodeSLO n1: spec.resourceQOSStrategy.beClass.cpuQOS.groupIdentity: got 7,"
                    " expected a number from -1 to 2",
                    "NodeSLO n1: spec.cpuBurstStrategy.policy: got 'always', expected one of none,"
                    " cpuBurstOnly, cfsQuotaBurstOnly, auto",
                    "NodeSLO n1: spec.systemStrategy.watermarkScaleFactor: got 99999, expected a"
                    " number above 0 to 400",
                    "NodeSLO n1: spec.systemStrategy.totalNetworkBandwidth: got '-1', expected a"
                    " quantity >= 0",
                )
            ]
            states._put_slo(decode_as(json.loads(text), NodeSLO))
            running = asyncio.create_task(states.run())
            await states.node.synced()
            assert said() == []
            assert SnapshotPart.NODE not in states.gone()
            await client.delete(Node, "n1")
            await asyncio.sleep(1)
            assert SnapshotPart.NODE in states.gone()
            assert said() == [
                "gone from the cluster; what it said last stays in force: {'object': 'Node n1'}"
            ]
            running.cancel()
            await asyncio.wait({running})

    run_virtual(story(), clock)


def test_the_system_clock_is_a_clock() -> None:
    store = StateStore(SystemClock())

    async def put() -> None:
        store.put(SnapshotPart.NODE, None)

    run(put())
    assert store.snapshot().node.age_seconds(SystemClock().monotonic_seconds()) < 60
