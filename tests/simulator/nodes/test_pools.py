# SPDX-License-Identifier: Apache-2.0
"""Descriptions of pools: what is taken, what is refused and how, what machines come of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from koord.base.errors import KoordError
from koord.simulator.nodes.demand import DemandModel, UsageDemand
from koord.simulator.nodes.machine import SimulatedMachine, machines
from koord.simulator.nodes.pools import (
    AgentSpec,
    NodePool,
    NodePools,
    PoolGPUs,
    TaintSpec,
    check,
    default_pools,
    load_pools,
)

HEADER = "apiVersion: simulator.koord/v1\nkind: NodePools\n"

EXAMPLE = """
pools:
- name: small
  count: 2
  cpu: 8
  memory: 32Gi
  labels: {team: web}
  taints: [{key: dedicated, value: web, effect: NoSchedule}]
- name: gpu
  cpu: 64
  memory: 512Gi
  sockets: 2
  numaNodesPerSocket: 2
  gpus: {count: 4, model: H100, memory: 80Gi, numaNodes: [0, 0, 3, 3]}
  kubeletReserved: {cpu: 2, memory: 8Gi}
demand:
  services: {cpu: 0.5, amplitude: 0.2, peakHour: 9}
chaos: true
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "pools.yaml"
    path.write_text(HEADER + text)
    return path


def test_a_description_becomes_machines(tmp_path: Path) -> None:
    pools = load_pools(written(tmp_path, EXAMPLE))
    found = machines(pools, seed=1)
    assert [machine.name for machine in found] == ["small-001", "small-002", "gpu-001"]
    assert pools.chaos
    assert pools.demand.services.cpu == 0.5
    assert pools.demand.batch.cpu == 0.9
    assert found[2].allocatable["cpu"] == "62"
    assert found[2].allocatable["memory"] == "504Gi"
    assert found[2].capacity["nvidia.com/gpu"] == "4"
    assert [gpu.numa_node for gpu in found[2].gpus] == [0, 0, 3, 3]
    assert [gpu.socket for gpu in found[2].gpus] == [0, 0, 1, 1]


REFUSED = [
    ("pools: [{name: a, cpus: 4}]", "pools[0]: got 'cpus', expected a known field, such as cpu"),
    ("pools: [{name: a, gpus: {cont: 4}}]", "expected a known field, such as count"),
    ("pool: []", "got 'pool', expected a known field, such as pools"),
    ("pools: [{name: A b}]", "pools[0].name: got 'A b'"),
    ("pools: [{name: a}, {name: a}]", "pools[1].name: got 'a', expected each name once"),
    ("pools: [{name: a, cpu: 6}]", "a multiple of sockets x numaNodesPerSocket x threadsPerCore"),
    ("pools: [{name: a, count: -1}]", "pools[0].count: got -1"),
    ("pools: [{name: a, count: 10001}]", "pools[0].count: got 10001"),
    ("pools: [{name: a, count: 6000}, {name: b, count: 6000}]", "at most 10000 nodes"),
    ("pools: [{name: a, memory: lots}]", "pools[0].memory: quantity: got 'lots'"),
    ("pools: [{name: a, memory: -1}]", "pools[0].memory: got -1"),
    ("pools: [{name: a, kubeletReserved: {cpu: x}}]", "kubeletReserved.cpu: quantity: got 'x'"),
    ("pools: [{name: a, taints: [{key: k, effect: Never}]}]", "pools[0].taints[0].effect"),
    ("pools: [{name: a, cpuManagerPolicy: some}]", "expected none or static"),
    ("pools: [{name: a, gpus: {count: 2, numaNodes: [0]}}]", "one for each of the 2 cards"),
    ("pools: [{name: a, gpus: {count: 1, numaNodes: [2]}}]", "pools[0].gpus.numaNodes[0]: got 2"),
    ("pools: [{name: a, gpus: {count: 0}}]", "pools[0].gpus.count: got 0"),
    ("pools: [{name: a, maxPods: 251}]", "pools[0].maxPods: got 251"),
    ("pools: []\ndemand: {services: {cpu: -1}}", "demand.services.cpu: got -1"),
    ("pools: []\ndemand: {batch: {peakHour: 25}}", "demand.batch.peakHour: got 25"),
    ("pools: []\ndemand: {defaultMemory: -1}", "demand.defaultMemory: got -1"),
    ("pools: 3", "pools: got 3, expected"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=[text for text, _ in REFUSED])
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, text: str, expected: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(KoordError) as refused:
        load_pools(path)
    assert expected in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("count", [0, 1, 9, 10, 100, 1000])
def test_the_default_has_as_many_nodes_as_asked_for(count: int) -> None:
    pools = default_pools(count)
    check(pools, "default")
    found = machines(pools, seed=0)
    assert len(found) == count
    assert sum(1 for machine in found if machine.gpus) == count // 10
    assert count == 0 or found[0].name == "node-001"


def machine(**fields: object) -> SimulatedMachine:
    pool = NodePool(name="a", **fields)  # type: ignore[arg-type]
    return SimulatedMachine("a-001", pool, 300, seed=7)


def test_cpus_are_numbered_as_linux_numbers_them() -> None:
    cpus = machine(cpu=8, sockets=2, numa_nodes_per_socket=1, threads_per_core=2).cpus
    assert [(c.id, c.core, c.socket, c.node) for c in cpus] == [
        (0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 1, 1), (3, 3, 1, 1),
        (4, 0, 0, 0), (5, 1, 0, 0), (6, 2, 1, 1), (7, 3, 1, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sockets", "per_socket", "threads"), [(1, 1, 1), (2, 2, 2), (4, 1, 2), (1, 4, 2), (2, 3, 1)]
)
def test_every_part_of_a_machine_has_as_many_cpus(
    sockets: int, per_socket: int, threads: int
) -> None:
    made = machine(
        cpu=48, sockets=sockets, numa_nodes_per_socket=per_socket, threads_per_core=threads
    )
    for part, parts in (("socket", sockets), ("node", sockets * per_socket)):
        counts = [sum(getattr(cpu, part) == i for cpu in made.cpus) for i in range(parts)]
        assert counts == [48 // parts] * parts
    cores = {cpu.core for cpu in made.cpus}
    assert all(sum(cpu.core == core for cpu in made.cpus) == threads for core in cores)
    assert all(cpu.node // per_socket == cpu.socket for cpu in made.cpus)


def test_identities_stay_and_differ() -> None:
    one, again = machine(gpus=PoolGPUs(count=3)), machine(gpus=PoolGPUs(count=3))
    assert [gpu.uuid for gpu in one.gpus] == [gpu.uuid for gpu in again.gpus]
    assert len({gpu.uuid for gpu in one.gpus} | {one.identity("boot")}) == 4
    assert len({gpu.bus for gpu in one.gpus}) == 3
    other = SimulatedMachine("a-001", one.pool, 300, seed=8)
    assert other.gpus[0].uuid != one.gpus[0].uuid


def test_addresses_of_ten_thousand_machines_differ() -> None:
    found = machines(default_pools(10_000), seed=0)
    assert len({machine.address for machine in found}) == 10_000
    assert len({machine.pod_prefix for machine in found}) == 10_000
    for machine in (found[0], found[-1]):
        numbers = [*machine.address.split("."), *machine.pod_prefix.split(".")]
        assert all(0 <= int(number) <= 255 for number in numbers)


def test_the_example_is_plain_yaml() -> None:
    assert set(yaml.safe_load(EXAMPLE)) == {"pools", "demand", "chaos"}


DEMANDS = ("services", "batch", "system")
GUIDE = Path(__file__).resolve().parents[3] / "docs/guide-up.md"


def guide_rows() -> dict[str, list[str]]:
    """The cells of the guide's tables by their first, which is a key."""
    lines = [line.split("|")[1:-1] for line in GUIDE.read_text("utf-8").splitlines()]
    cells = [[cell.strip() for cell in line] for line in lines if line]
    return {line[0].strip("`"): line[1:] for line in cells}


def keys_of(kind: type[msgspec.Struct], prefix: str) -> dict[str, object]:
    """Each key with its default; None where it has none that is worth a word."""
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        made = field.default_factory
        default = field.default if made is msgspec.NODEFAULT else made()
        worth_a_word = default is not msgspec.NODEFAULT and default != ""
        found[prefix + field.encode_name] = default if worth_a_word else None
    return found


def shown(default: object) -> str:
    return "" if default is None else "false" if default is False else str(default)


def test_the_guide_names_every_key_and_its_default() -> None:
    expected = {
        **keys_of(NodePool, "pools[]."),
        **keys_of(PoolGPUs, "pools[].gpus."),
        **keys_of(TaintSpec, "pools[].taints[]."),
        **keys_of(DemandModel, "demand."),
        **keys_of(AgentSpec, "agents."),
        **keys_of(NodePools, ""),
    }
    tables = {"pools", "demand", "agents", "pools[].gpus", "pools[].taints"}
    of_their_own = {"pools[].kubeletReserved", *(f"demand.{name}" for name in DEMANDS)}
    rows = guide_rows()
    prefixes = ("pools[]", "demand.", "agents.")
    documented = {name for name in rows if name.startswith(prefixes)} | {"chaos"}
    assert documented == expected.keys() - tables
    for name in documented - of_their_own:
        assert rows[name][0] == shown(expected[name]), name


def test_the_guide_shows_every_demand() -> None:
    rows, model = guide_rows(), DemandModel()
    for field in msgspec.structs.fields(UsageDemand):
        given = [str(getattr(getattr(model, name), field.name)) for name in DEMANDS]
        assert rows[field.encode_name][:3] == given
