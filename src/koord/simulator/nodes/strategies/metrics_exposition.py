# SPDX-License-Identifier: Apache-2.0
"""What the agents of simulated machines decided, as Prometheus series of the agent's names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies.cpusuppress import decision
from koord.agent.strategies.cpusuppress.strategy import CFS_QUOTA, CPUSET
from koord.agent.strategies.eviction.eviction_cycle import REASON
from koord.base.metrics import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.nodes.strategies.enforcement import Enforcement


def exposition(enforcement: Enforcement, names: Sequence[str]) -> bytes:
    """The series of now, in Prometheus' text format.

    Args:
        names: of the machines, in the order of their rows.
    """
    made = registry()
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
