# SPDX-License-Identifier: Apache-2.0
"""Who comes to the cluster, and what they ask for."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import Pod, decode_as
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.qos import QoSClass, kubernetes_qos, qos_with_default
from koord.api.sloconfig import config
from koord.simulator.live import initial_config, workload
from koord.simulator.live.workload import Arrival
from koord.simulator.nodes.agents.usage_model import CPUAndMemory, pod_load
from koord.simulator.nodes.demand import DemandModel
from koord.simulator.nodes.pod_lifecycle import pod_stages

HOURS, NODES = 200, 20


def _until(seed: int, hours: float, nodes: int = NODES) -> list[Arrival]:
    found = workload.arrivals(seed, nodes)
    return list(itertools.takewhile(lambda each: each.seconds < 3600 * hours, found))


def _pod(document: dict[str, object]) -> Pod:
    template = document["spec"]["template"]  # type: ignore[index]
    metadata = {"name": "a", "namespace": "default", "uid": "u", **template["metadata"]}
    return decode_as({"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}, Pod)


@given(st.integers(0, 2**63), st.integers(1, 50))
def test_jobs_come_in_order_and_by_the_seed(seed: int, nodes: int) -> None:
    found = list(itertools.islice(workload.arrivals(seed, nodes), 50))
    assert found == list(itertools.islice(workload.arrivals(seed, nodes), 50))
    assert found != list(itertools.islice(workload.arrivals(seed + 1, nodes), 50))
    assert [each.seconds for each in found] == sorted(each.seconds for each in found)
    assert len({each.name for each in found}) == len(found)
    assert all(low <= each.tasks <= high for each in found for low, high in [each.kind.tasks])


def test_jobs_come_as_often_as_said() -> None:
    counts = Counter(each.kind.name for each in _until(1, HOURS))
    for kind in workload.BATCH:
        # A Poisson count is within five standard deviations of its mean.
        mean = kind.per_node_hour * NODES * (HOURS + workload.BACKLOG_SECONDS / 3600)
        assert abs(counts[kind.name] - mean) < 5 * mean**0.5


def test_batch_asks_for_as_much_as_said() -> None:
    seconds = sum(each.tasks * each.duration_seconds * each.kind.cpu for each in _until(2, HOURS))
    assert seconds / 3600 / HOURS / NODES == pytest.approx(11, rel=0.1)


def test_what_came_before_the_start_waits_there() -> None:
    assert sum(each.seconds == 0.0 for each in _until(3, 1)) > NODES


def test_nothing_comes_to_no_machines() -> None:
    assert list(workload.arrivals(0, 0)) == []


@given(st.integers(0, 200))
def test_a_task_is_best_effort_and_ends_by_itself(at: int) -> None:
    arrival = next(itertools.islice(workload.arrivals(4, 5), at, None))
    pod = _pod(workload.job(arrival))
    assert class_with_default(pod) is PriorityClass.BATCH
    assert pod.spec.priority_class_name == "koord-batch"
    assert qos_with_default(pod) is QoSClass.BE
    assert kubernetes_qos(pod) == "BestEffort"
    load = pod_load(pod, 0, DemandModel(), 0)
    kind = arrival.kind
    assert load.requests == CPUAndMemory(1000 * kind.cpu, kind.memory_gi << 30)
    ends = [each for each in pod_stages.load_stages(chaos=False) if each.delay.of == "duration"]
    assert pod_stages.delay_seconds(ends[0], pod, 0) == arrival.duration_seconds


def test_services_fit_and_sleep_in_the_morning() -> None:
    total, morning, peak = 0, 0.0, 0.0
    for document in workload.deployments(2):
        load = pod_load(_pod(document), 0, DemandModel(), 0)
        assert load.qos is QoSClass.LS
        assert not load.best_effort
        cores = document["spec"]["replicas"] / 2 * load.requests.cpu_milli / 1000
        total += cores
        demand = load.demand
        assert demand != DemandModel().services, "its annotation is taken"
        hour = initial_config.START_SECONDS % 86_400 / 3600
        morning += cores * demand.cpu * (1 - demand.amplitude * _cosine(hour, demand.peak_hour))
        peak += cores * demand.cpu
    assert total == 24
    assert morning < 0.7 * peak


def test_the_settings_are_what_the_manager_reads() -> None:
    found = config.load(initial_config.config_map()["data"], object_name="here")
    assert not found.errors
    assert json.loads(initial_config.config_map()["data"]["colocation-config"])["enable"] is True


def _cosine(hour: float, peak: float) -> float:
    import math

    return -math.cos(2 * math.pi * (hour - peak) / 24)
