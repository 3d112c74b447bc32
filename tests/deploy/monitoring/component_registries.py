# SPDX-License-Identifier: Apache-2.0
"""Every component's registries, as its program makes them: constructed, not run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from koord.agent.app import Agent, AgentServices
from koord.agent.feature_gates import feature_gates as agent_gates
from koord.agent.options import AgentOptions
from koord.agent.states.kubelet_latency import TimedTransport
from koord.base.clock import VirtualClock
from koord.base.metrics import MetricDescription, MetricRegistry, registry
from koord.base.supervision import Supervisor
from koord.cli.daemons.admission_part import admission_app
from koord.cli.process.lease_client import leader_elector
from koord.controllers.descheduler.app import DeschedulerApp
from koord.controllers.descheduler.config.load import shipped as descheduler_config
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.metrics import DeschedulerMetrics
from koord.controllers.manager.app import ManagerApp
from koord.controllers.manager.metrics import ManagerMetrics
from koord.controllers.manager.options import ManagerOptions
from koord.controllers.scheduler.app import App as SchedulerApp
from koord.controllers.scheduler.config.load import shipped as scheduler_config
from koord.controllers.scheduler.metrics import SchedulerMetrics
from koord.controllers.scheduler.registry import Registry
from koord.controllers.webhook.environment import WebhookEnvironment
from koord.controlplane.metrics import ServerMetrics
from koord.controlplane.storage.store import Store
from koord.delivery.cri.options import RuntimeProxyOptions
from koord.delivery.cri.proxy import RuntimeProxy
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.events import EventRecorder
from koord.kube.transport.messages import Request, Response, Stream
from tests.agent.machine_tree import MachineTree

NODE = "node-1"
_ALL = "AllAlpha=true,AllBeta=true"


class _NoServer:
    """A transport that nobody uses: nothing here runs."""

    async def send(self, request: Request) -> Response:
        raise AssertionError(request.path)

    async def open(self, request: Request) -> Stream:
        raise AssertionError(request.path)

    async def close(self) -> None:
        """There is nothing to close."""


class ComponentMetric(NamedTuple):
    """A metric of a component, and where it is served there."""

    component: str
    path: str
    metric: MetricDescription


def component_metrics(folder: Path) -> Iterator[ComponentMetric]:
    """What all components declare, each in its order.

    Args:
        folder: where a machine for the agent is made up.
    """
    manager = _manager()
    found = [
        ("koord-scheduler", "/metrics", _scheduler()),
        ("koord-manager", "/metrics", manager.controllers),
        ("koord-manager", "/internal-metrics", manager.internal),
        ("koord-manager", "/external-metrics", manager.external),
        ("koord-descheduler", "/metrics", _descheduler()),
        ("koordlet", "/metrics", _agent(folder)),
        ("koord-runtime-proxy", "/metrics", asyncio.run(_runtime_proxy(folder))),
        ("koord up", "/metrics", ServerMetrics(Store()).registry),
    ]
    for component, path, registered in found:
        for metric in registered.descriptions():
            yield ComponentMetric(component, path, metric)


class _Parts(NamedTuple):
    client: Client
    clock: VirtualClock
    recorder: EventRecorder


def _parts(name: str, metrics: MetricRegistry) -> _Parts:
    """What programs have in common, counting in one registry."""
    clock = VirtualClock(0.0)
    client = Client(_NoServer(), name, registry=metrics)
    DryRun(metrics)
    recorder = EventRecorder(client, name, clock=clock, metrics=metrics)
    leader_elector(client, name, "koordinator-system", metrics, clock=clock, identity="one")
    return _Parts(client, clock, recorder)


def _scheduler() -> MetricRegistry:
    metrics, plugins = SchedulerMetrics(), Registry(outside=[])
    client, clock, recorder = _parts("koord-scheduler", metrics.registry)
    configuration = scheduler_config(plugins, "koord-scheduler")
    SchedulerApp(client, configuration, clock, recorder, metrics=metrics, registry=plugins)
    return metrics.registry


def _manager() -> ManagerMetrics:
    metrics, options = (
        ManagerMetrics(),
        ManagerOptions(feature_gates=_ALL, binding_admission_user_name="one"),
    )
    client, clock, recorder = _parts("koord-manager", metrics.controllers)
    app = ManagerApp(client, options, clock, recorder, metrics=metrics)
    admission_app(app, client, options, recorder, WebhookEnvironment.of({}))
    return metrics


def _descheduler() -> MetricRegistry:
    metrics = DeschedulerMetrics()
    client, clock, recorder = _parts("koord-descheduler", metrics.registry)
    configuration = descheduler_config(PluginRegistry(), "LowNodeLoad")
    DeschedulerApp(client, configuration, clock, recorder, metrics=metrics)
    return metrics.registry


def _agent(folder: Path) -> MetricRegistry:
    metrics, clock = registry(), VirtualClock(0.0)
    client = Client(_NoServer(), "koordlet", registry=metrics, dry_run=DryRun(metrics))
    recorder = EventRecorder(client, "koordlet", host=NODE, clock=clock, metrics=metrics)
    TimedTransport(_NoServer(), metrics, clock)
    options = AgentOptions(
        node_name=NODE,
        pods_from="apiserver",
        disable_query_kubelet_config=True,
        dry_run=True,
        feature_gates=",".join(f"{gate.name}=true" for gate in agent_gates("").known()),
        prediction_checkpoint_filepath=str(folder / "checkpoints"),
    )
    machine = MachineTree(folder / "machine").machine()
    supervisor = Supervisor("koordlet", metrics, clock)
    Agent(options, machine, AgentServices(client, recorder, None, metrics, clock, supervisor))
    return metrics


async def _runtime_proxy(folder: Path) -> MetricRegistry:
    metrics, clock = registry(), VirtualClock(0.0)
    supervisor = Supervisor("runtime_proxy", metrics, clock)
    options = RuntimeProxyOptions(state_dir=str(folder / "proxy"))
    await RuntimeProxy(options, metrics, clock, supervisor).stop()
    return metrics
