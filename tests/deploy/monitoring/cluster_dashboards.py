# SPDX-License-Identifier: Apache-2.0
"""What is shown of the cluster as a whole, of one node, and of pods that are moved."""

from __future__ import annotations

from tests.deploy.monitoring.panels import WINDOW, Dashboard, Query, Row, panel, quantile, rate

_CPU = 'koord_koordlet_node_capacity{resource="cpu"}'
_MEMORY = 'koord_koordlet_node_capacity{resource="memory"}'
_OFFERS = "slo_controller_node_extended_resource_allocatable_internal"
_BATCH_CPU = f'{_OFFERS}{{resource="kubernetes.io/batch-cpu"}}'
_BATCH_MEMORY = f'{_OFFERS}{{resource="kubernetes.io/batch-memory"}}'
_USED, _BY_BATCH = "koordlet_node_used_cpu_cores", "koordlet_be_suppress_be_used_cpu_cores"
_BY_SERVICES, _ALLOWED = "koordlet_be_suppress_ls_used_cpu_cores", "koordlet_be_suppress_cpu_cores"
_NO_EVICTIONS = "nobody has to be evicted in an hour in which services want little"
_NO_FAILURES = "no part fails in that hour"
_NO_KERNEL = "simulated machines have no kernel that tells of it"
_NO_MOVES = "no node is above the descheduler's thresholds in that hour"
# Of gauges that only grow, which keep the names of the original's counters.
_GROWTH = f"increase({{}}[{WINDOW}])"

CLUSTER = Dashboard(
    "koord-cluster",
    "koord: cluster",
    "What co-location brings, and whether services pay for it. For operators, every day.",
    (
        Row(
            "Utilisation",
            (
                panel(
                    "CPU in use", "percentunit",
                    (f"sum({_USED}) / sum({_CPU})", "with batch"),
                    (f"(sum({_USED}) - sum({_BY_BATCH})) / sum({_CPU})", "without batch"),
                    text="Of what pods can have. The distance between both is what batch brings.",
                ),
                panel(
                    "Memory in use", "percentunit",
                    (f"sum(koordlet_node_used_memory_bytes) / sum({_MEMORY})", "in use"),
                    text="Of what pods can have.",
                ),
                panel(
                    "CPU by who uses it", "cores",
                    (f"sum({_BY_SERVICES})", "services"),
                    (f"sum({_BY_BATCH})", "batch"),
                    (f"sum({_USED}) - sum({_BY_SERVICES}) - sum({_BY_BATCH})", "system"),
                    text="What is neither a service's nor batch's is the system's.", stacked=True,
                ),
            ),
        ),
        Row(
            "Offers and suppression",
            (
                panel(
                    "CPU offered to batch", "cores",
                    (f"sum({_BATCH_CPU})", "offered"),
                    (f"sum({_ALLOWED})", "allowed now"),
                    (f"sum({_BY_BATCH})", "used"),
                    text="Offers follow within minutes, suppression within a second: where allowed "
                    "is below offered, batch is held down.",
                ),
                panel(
                    "Memory offered to batch", "bytes",
                    (f"sum({_BATCH_MEMORY})", "offered"),
                    text="By the manager's formula, of all nodes.",
                ),
                panel(
                    "Nodes on which batch is held down", "short",
                    (
                        f"count(sum by (node) ({_ALLOWED}) < sum by (node) ({_BATCH_CPU})) "
                        "or vector(0)",
                        "nodes",
                    ),
                    text="Allowed is less than offered. Many nodes for long: offer less.",
                ),
            ),
        ),
        Row(
            "Evictions",
            (
                panel(
                    "Evictions by agents", "short",
                    Query(
                        f"sum by (reason) ({_GROWTH.format('koordlet_pod_eviction')})",
                        "{{reason}}", _NO_EVICTIONS,
                    ),
                    text="Pods that agents evicted since services wanted the room back.",
                ),
                panel(
                    "Failures of parts", "ops",
                    Query(rate("koord_scheduler_failures_total", "part"), "scheduler {{part}}",
                          _NO_FAILURES),
                    Query(rate("koord_manager_failures_total", "part"), "manager {{part}}",
                          _NO_FAILURES),
                    ("sum(rate(koord_informer_failures_total[$__rate_interval])) or vector(0)",
                     "watches"),
                    text="Loops that failed and were begun again; zero where all is well.",
                ),
            ),
        ),
    ),
)  # fmt: skip

NODE = Dashboard(
    "koord-node",
    "koord: node",
    "One node: who uses it, what batch may have, what the kernel says. For whoever asks why.",
    (
        Row(
            "CPU and memory",
            (
                panel(
                    "CPU", "cores",
                    (f'{_USED}{{node=~"$node"}}', "{{node}} in use"),
                    ('koord_koordlet_node_capacity{resource="cpu",node=~"$node"}', "{{node}} all"),
                    text="What the node uses of what pods can have.",
                ),
                panel(
                    "Services and batch", "cores",
                    (f'{_BY_SERVICES}{{node=~"$node"}}', "{{node}} services"),
                    (f'{_BY_BATCH}{{node=~"$node"}}', "{{node}} batch"),
                    (f'{_ALLOWED}{{node=~"$node"}}', "{{node}} allowed ({{type}})"),
                    text="Batch never passes what it is allowed.",
                ),
                panel(
                    "Memory", "bytes",
                    ('koordlet_node_used_memory_bytes{node=~"$node"}', "{{node}} in use"),
                    (
                        'koord_koordlet_node_capacity{resource="memory",node=~"$node"}',
                        "{{node}} all",
                    ),
                    text="What the node uses of what pods can have.",
                ),
            ),
        ),
        Row(
            "What batch is offered",
            (
                panel(
                    "Batch CPU", "cores",
                    (
                        'koordlet_node_resource_allocatable{resource="kubernetes.io/batch-cpu",'
                        'node=~"$node"} / 1000', "{{node}} on the Node",
                    ),
                    (
                        f'{_OFFERS}{{resource="kubernetes.io/batch-cpu",node=~"$node"}}',
                        "{{node}} by the manager",
                    ),
                    text="The manager writes a Node when its offer has moved enough.",
                ),
                panel(
                    "Evictions", "short",
                    Query(
                        "sum by (node, reason) "
                        f"(increase(koordlet_pod_eviction{{node=~\"$node\"}}[{WINDOW}]))",
                        "{{node}} {{reason}}", _NO_EVICTIONS,
                    ),
                    text="Pods that the agent evicted.",
                ),
            ),
        ),
        Row(
            "Pressure and interference",
            (
                panel(
                    "Pods that stall for CPU", "percent",
                    Query(
                        'topk(10, koordlet_pod_psi{node=~"$node",psi_resource_type="cpu",'
                        'psi_degree="some"})', "{{pod_namespace}}/{{pod_name}}", _NO_KERNEL,
                    ),
                    text="Share of time in which some task waits for a CPU; the ten worst.",
                ),
                panel(
                    "Cycles per instruction", "short",
                    Query(
                        'topk(10, koordlet_container_cpi{node=~"$node",cpi_field="cycles"} '
                        '/ ignoring(cpi_field) koordlet_container_cpi{node=~"$node",'
                        'cpi_field="instructions"})',
                        "{{pod_namespace}}/{{pod_name}} {{container_name}}", _NO_KERNEL,
                    ),
                    text="What rises under the same load is disturbed by its neighbours.",
                ),
                panel(
                    "Last-level cache by class", "bytes",
                    Query(
                        'sum by (qos) (koordlet_resctrl_llc_occupancy{node=~"$node"})', "{{qos}}",
                        _NO_KERNEL,
                    ),
                    text="Where the machine has resctrl.",
                ),
                panel(
                    "Memory bandwidth by class", "Bps",
                    Query(
                        'sum by (qos) (koordlet_resctrl_memory_bandwidth{node=~"$node"})',
                        "{{qos}}", _NO_KERNEL,
                    ),
                    text="Where the machine has resctrl.",
                ),
            ),
        ),
    ),
    {"node": "koordlet_node_used_cpu_cores"},
)  # fmt: skip

DESCHEDULER = Dashboard(
    "koord-descheduler",
    "koord: descheduler",
    "Which pods are moved, and whether rounds are well. For operators who let it run.",
    (
        Row(
            "Rounds",
            (
                panel(
                    "Rounds", "ops",
                    (rate("koord_descheduler_rounds_total", "result"), "{{result}}"),
                    text="An error is a plugin's, or the round's; the log says which.",
                ),
                panel(
                    "Length of a round", "s",
                    (quantile(0.99, "koord_descheduler_round_duration_seconds"),
                     "99th percentile"),
                    text="A round longer than its interval makes the next one late.",
                ),
                panel(
                    "Length of an arbitration", "s",
                    Query(
                        quantile(0.99, "koord_descheduler_arbitration_duration_seconds"),
                        "99th percentile", _NO_MOVES,
                    ),
                    text="Which of the waiting migration jobs may go, with their writes.",
                ),
            ),
        ),
        Row(
            "Pods",
            (
                panel(
                    "Pods that strategies wanted to move", "short",
                    Query(
                        "sum by (strategy, result) "
                        f"(increase(descheduler_pods_evicted[{WINDOW}]))",
                        "{{strategy}} {{result}}", _NO_MOVES,
                    ),
                    text="Limited: by a limit of the cycle, so that it comes again.",
                ),
                panel(
                    "Load of nodes", "percentunit",
                    (
                        f"max({_USED} / on (node) {_CPU})", "busiest",
                    ),
                    (f"avg({_USED} / on (node) {_CPU})", "mean"),
                    (f"min({_USED} / on (node) {_CPU})", "idlest"),
                    text="LowNodeLoad moves pods from the busiest to the idlest.",
                ),
                panel(
                    "Leading", "short",
                    ("sum(koord_descheduler_is_leader)", "leaders"),
                    text="One, or nobody moves anything.",
                ),
            ),
        ),
    ),
)  # fmt: skip
