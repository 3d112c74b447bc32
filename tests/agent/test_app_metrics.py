# SPDX-License-Identifier: Apache-2.0
"""An agent put together serves what it measures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from koord.agent.app import Agent, AgentServices
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.agent.options import AgentOptions
from koord.base.clock import VirtualClock
from koord.base.metrics import registry
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from tests.agent.machine_tree import MachineTree


def test_series_of_an_agent(tmp_path: Path) -> None:
    clock, told = VirtualClock(1_700_000_000.0), registry()
    transport: Any = None  # nothing is sent before the agent runs
    client = Client(transport, "koordlet")
    events = EventRecorder(client, "koordlet", host="n1", clock=clock, metrics=told)
    options = dataclasses.replace(
        AgentOptions(), node_name="n1", pods_from="apiserver",
        audit_log_dir=str(tmp_path / "audit"),
        prediction_checkpoint_filepath=str(tmp_path / "checkpoints"),
    )  # fmt: skip
    machine = MachineTree(tmp_path / "machine").machine()
    agent = Agent(options, machine, AgentServices(client, events, None, told, clock))
    samples = Samples(round(clock.wall_seconds() * 1000))
    samples.one(MetricKind.NODE_CPU_USAGE, 1.25)
    agent.cache.append(samples)
    agent.refresh_metrics()
    text = told.expose().decode()
    assert 'koordlet_node_used_cpu_cores{node="n1"} 1.25\n' in text
    assert 'koordlet_start_time{node="n1"} 1.7e+09\n' in text
    for name in ("cpu", "numa"):
        assert f'koordlet_collect_node_{name}_info_status{{node="n1",status="failed"}} 0.0' in text
    agent.advisor.stop()
