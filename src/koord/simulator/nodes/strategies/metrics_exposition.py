# SPDX-License-Identifier: Apache-2.0
"""What simulated agents measured and decided, as Prometheus series of the agent's names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.prometheus.pod_exporter import OWN_UNITS, UNITS
from koord.agent.strategies.cpusuppress import decision
from koord.agent.strategies.cpusuppress.strategy import CFS_QUOTA, CPUSET
from koord.agent.strategies.eviction.eviction_cycle import REASON
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from koord.base.metrics import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.metrics import MetricRegistry
    from koord.simulator.nodes.agents.usage_model import UsageReading
    from koord.simulator.nodes.strategies.column_table import ColumnTable
    from koord.simulator.nodes.strategies.enforcement import Enforcement
    from koord.simulator.nodes.strategies.node_rows import NodeRow

# Columns of a Node's row, with the resource of each that koord puts there.
_LENT = {"cpu_1": MID_CPU, "memory_1": MID_MEMORY, "cpu_2": BATCH_CPU, "memory_2": BATCH_MEMORY}


def exposition(enforcement: Enforcement, names: Sequence[str], reading: UsageReading) -> bytes:
    """The series of now, in Prometheus' text format.

    Args:
        names: of the machines, in the order of their rows.
        reading: what they use.
    """
    made = registry()
    _measured(made, enforcement.nodes, names, reading)
    cores = made.gauge(
        "koordlet_be_suppress_cpu_cores", "CPU left to best-effort pods.", ("node", "type")
    )
    services = made.gauge(
        "koordlet_be_suppress_ls_used_cpu_cores", "CPU that services use.", ("node",)
    )
    best_effort = made.gauge(
        "koordlet_be_suppress_be_used_cpu_cores", "CPU that best-effort pods use.", ("node",)
    )
    suppression = enforcement.suppression
    decided = suppression.allowed_milli != decision.UNKNOWN
    for row in np.flatnonzero(decided).tolist():
        quota = int(suppression.quota_us[row])
        by_cpus = quota == decision.UNSET
        left = suppression.count[row] if by_cpus else quota / decision.PERIOD_US
        cores.labels(names[row], CPUSET if by_cpus else CFS_QUOTA).set(float(left))
        services.labels(names[row]).set(float(suppression.service_cores[row]))
        best_effort.labels(names[row]).set(float(suppression.be_cores[row]))
    evictions = made.gauge("koordlet_pod_eviction", "Evictions begun.", ("node", "reason"))
    by_feature = made.gauge(
        "koord_simulator_evictions", "Evictions begun, by feature.", ("node", "feature")
    )
    begun: Counter[int] = Counter()
    for (row, feature), count in sorted(enforcement.evicted.items()):
        begun[row] += count
        by_feature.labels(names[row], feature).set(count)
    for row, count in begun.items():
        evictions.labels(names[row], REASON).set(count)
    return made.expose()


def _measured(
    into: MetricRegistry, nodes: ColumnTable[NodeRow], names: Sequence[str], reading: UsageReading
) -> None:
    """What machines have, lend and use; nothing of those without a Node."""
    cpu = into.gauge("koordlet_node_used_cpu_cores", "CPU that the node uses.", ("node",))
    memory = into.gauge("koordlet_node_used_memory_bytes", "Memory that the node uses.", ("node",))
    labels = ("node", "resource", "unit")
    capacity = into.gauge(
        "koord_koordlet_node_capacity",
        "CPU in cores and memory in bytes that pods of the node can have.", labels,
    )  # fmt: skip
    lent = into.gauge("koordlet_node_resource_allocatable", "What the node lends.", labels)
    known = np.flatnonzero(nodes["known"]).tolist()
    for row in known:
        cpu.labels(names[row]).set(float(reading.node_cpu[row]))
        memory.labels(names[row]).set(float(reading.node_memory[row]))
        capacity.labels(names[row], CPU, OWN_UNITS[CPU]).set(int(nodes["cpu_0"][row]) / 1000)
        capacity.labels(names[row], MEMORY, OWN_UNITS[MEMORY]).set(int(nodes["memory_0"][row]))
        for column, resource in _LENT.items():
            if (amount := int(nodes[column][row])) >= 0:
                lent.labels(names[row], resource, UNITS[resource]).set(amount)
