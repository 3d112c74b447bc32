# SPDX-License-Identifier: Apache-2.0
"""Runs best-effort pods under the kernel's idle policy while services use much of the node."""

from koord.agent.executor.claim import Claim
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies import readings

FROM_PERCENT = 50  # of the node's CPUs


class IdleBatch:
    """Claims ``cpu.idle`` of the best-effort cgroup; gives it back when the node is calm."""

    name = "idle-batch"
    gate = ""  # no gate: it runs where it is installed

    def __init__(self, options):
        self.interval_seconds = options.reconcile_interval_seconds

    def run(self, tick, hands):
        """One round; a KoordError from ``readings`` gives it up, and the claim stays."""
        readings.check_fresh(tick, readings.TO_SUPPRESS)
        used = readings.node_last(tick, MetricKind.NODE_CPU_USAGE)
        percent = idle_percent(used, len(tick.machine.topology.online))
        claims = []
        if percent >= FROM_PERCENT:
            directory = tick.machine.layout.best_effort
            claims = [Claim("cpu.idle", directory, 1, f"{percent} % of the CPUs are in use")]
        hands.executor.state(self.name, "node", claims)
        return {"used_percent": percent, "idle": bool(claims)}

    def stop(self, hands):
        """Takes the claim back."""
        hands.executor.withdraw(self.name)


def idle_percent(used_cores, processors):
    """The decision's figure by itself, so that it can be tested with numbers."""
    return int(100 * used_cores / processors)
