# SPDX-License-Identifier: Apache-2.0
"""Which machines there are: pools of equal ones, from a file or by number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from koord.agent.feature_gates import feature_gates
from koord.base import config
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity, Rounding
from koord.simulator.nodes.demand import DemandModel

if TYPE_CHECKING:
    from pathlib import Path

    from koord.base.feature_gates import FeatureGates

API_VERSION, KIND = "simulator.koord/v1", "NodePools"

MOST_NODES = 10_000
_MOST_CPUS = 8192
# The addresses of one machine's pods differ in the last of their four numbers.
_MOST_PODS = 250
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
# A quantity, which YAML may read as a number.
Amount = str | int | float

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CPU_MANAGER_POLICIES = ("none", "static")


class _PoolMapping(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A mapping whose keys are all known."""


class PoolGPUs(_PoolMapping, frozen=True):
    """The GPUs of each machine of a pool.

    Attributes:
        numa_nodes: the NUMA node of each card; spread evenly, in order, if empty.
    """

    count: int
    model: str = "A100-SXM4-80GB"
    memory: Amount = "80Gi"
    driver: str = "550.54.15"
    numa_nodes: list[int] = []


class TaintSpec(_PoolMapping, frozen=True):
    """A taint that the machines register with."""

    key: str
    effect: str
    value: str = ""


class NodePool(_PoolMapping, frozen=True):
    """Machines that are alike.

    Attributes:
        name: machines are called ``NAME-001`` and so on.
        cpu: logical CPUs of each.
        memory: of each, spread evenly over its NUMA nodes.
        kubelet_reserved: by resource; allocatable is what is left of the capacity.
        zone: value of the label ``topology.kubernetes.io/zone``.
        cpu_manager_policy: of the kubelet: none or static.
    """

    name: str
    count: int = 1
    cpu: int = 32
    memory: Amount = "128Gi"
    sockets: int = 2
    numa_nodes_per_socket: int = 1
    threads_per_core: int = 2
    gpus: PoolGPUs | None = None
    labels: dict[str, str] = {}
    taints: list[TaintSpec] = []
    kubelet_reserved: dict[str, Amount] = msgspec.field(
        default_factory=lambda: {"cpu": "500m", "memory": "1Gi"}
    )
    max_pods: int = 110
    ephemeral_storage: Amount = "200Gi"
    zone: str = ""
    cpu_model: str = "Simulated CPU @ 2.60GHz"
    cpu_manager_policy: str = "none"


class AgentSpec(_PoolMapping, frozen=True):
    """The node agents of all machines.

    Attributes:
        feature_gates: those that are not as koordlet's defaults, by name.
    """

    feature_gates: dict[str, bool] = {}

    def gates(self, source: str = "agents.featureGates") -> FeatureGates:
        """All gates.

        Raises:
            KoordError: there is no gate of a name.
        """
        made = feature_gates()
        said = (f"{name}={str(on).lower()}" for name, on in self.feature_gates.items())
        made.set_from(",".join(said), source)
        return made


class NodePools(_PoolMapping, frozen=True):
    """All machines, and how what runs on them behaves.

    Attributes:
        demand: what pods use, by class.
        agents: what runs on every machine beside its pods.
        chaos: whether pods fail now and then.
    """

    pools: list[NodePool]
    demand: DemandModel = msgspec.field(default_factory=DemandModel)
    agents: AgentSpec = msgspec.field(default_factory=AgentSpec)
    chaos: bool = False


def load_pools(path: Path) -> NodePools:
    """Reads a description of pools.

    Raises:
        KoordError: unreadable, an unknown key, or machines that cannot be.
    """
    pools = config.load({(API_VERSION, KIND): NodePools}, path)
    check(pools, str(path))
    return pools


def default_pools(count: int) -> NodePools:
    """As many machines as asked for; from ten on, every tenth one has GPUs."""
    with_gpus = count // 10
    pools = [NodePool(name="node", count=count - with_gpus)]
    if with_gpus:
        gpus = PoolGPUs(count=8)
        pools.append(NodePool(name="node-gpu", count=with_gpus, cpu=96, memory="768Gi", gpus=gpus))
    return NodePools(pools=pools if count else [])


def check(config: NodePools, source: str) -> None:
    """Refuses machines that cannot be.

    Raises:
        KoordError: names the pool and the field.
    """
    names = [pool.name for pool in config.pools]
    for index, pool in enumerate(config.pools):
        if names.index(pool.name) != index:
            raise KoordError(source, f"pools[{index}].name", pool.name, "each name once")
        _check_pool(pool, source, f"pools[{index}]")
    total = sum(pool.count for pool in config.pools)
    if total > MOST_NODES:
        raise KoordError(source, "pools", f"{total} nodes", f"at most {MOST_NODES} nodes")
    config.demand.check(source, "demand")
    config.agents.gates(f"{source} agents.featureGates")


def amount(source: str, field: str, text: Amount) -> int:
    """A quantity as a whole number, rounded up.

    Raises:
        KoordError: no quantity, or a negative one.
    """
    try:
        value = Quantity.parse(text).value(Rounding.UP)
    except ValueError as error:
        raise KoordError.wrap(source, field, error) from None
    if value < 0:
        raise KoordError(source, field, text, "a quantity of at least 0")
    return value


def _check_pool(pool: NodePool, source: str, at: str) -> None:
    if not _NAME.fullmatch(pool.name):
        expected = "lower-case letters, digits and -, at most 42"
        raise KoordError(source, f"{at}.name", pool.name, expected)
    _bounds(source, f"{at}.count", pool.count, 0, MOST_NODES)
    for field in ("sockets", "numa_nodes_per_socket", "threads_per_core"):
        _bounds(source, f"{at}.{_camel(field)}", getattr(pool, field), 1, 64)
    _bounds(source, f"{at}.maxPods", pool.max_pods, 1, _MOST_PODS)
    _bounds(source, f"{at}.cpu", pool.cpu, 1, _MOST_CPUS)
    parts = pool.sockets * pool.numa_nodes_per_socket * pool.threads_per_core
    if pool.cpu % parts:
        expected = f"a multiple of sockets x numaNodesPerSocket x threadsPerCore = {parts}"
        raise KoordError(source, f"{at}.cpu", pool.cpu, expected)
    for field in ("memory", "ephemeral_storage"):
        amount(source, f"{at}.{_camel(field)}", getattr(pool, field))
    for name, text in pool.kubelet_reserved.items():
        amount(source, f"{at}.kubeletReserved.{name}", text)
    for index, taint in enumerate(pool.taints):
        if taint.effect not in _EFFECTS:
            expected = "one of " + ", ".join(_EFFECTS)
            raise KoordError(source, f"{at}.taints[{index}].effect", taint.effect, expected)
    if pool.cpu_manager_policy not in _CPU_MANAGER_POLICIES:
        raise KoordError(
            source, f"{at}.cpuManagerPolicy", pool.cpu_manager_policy, "none or static"
        )
    if pool.gpus is not None:
        _check_gpus(pool.gpus, pool.sockets * pool.numa_nodes_per_socket, source, f"{at}.gpus")


def _check_gpus(gpus: PoolGPUs, numa_nodes: int, source: str, at: str) -> None:
    _bounds(source, f"{at}.count", gpus.count, 1, 64)
    amount(source, f"{at}.memory", gpus.memory)
    if gpus.numa_nodes and len(gpus.numa_nodes) != gpus.count:
        expected = f"one for each of the {gpus.count} cards"
        raise KoordError(source, f"{at}.numaNodes", gpus.numa_nodes, expected)
    for index, node in enumerate(gpus.numa_nodes):
        _bounds(source, f"{at}.numaNodes[{index}]", node, 0, numa_nodes - 1)


def _bounds(source: str, field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise KoordError(source, field, value, f"a whole number from {least} to {most}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
