# SPDX-License-Identifier: Apache-2.0
"""What is shown of the scheduler, of quotas and of gangs."""

from __future__ import annotations

from tests.deploy.monitoring.panels import Dashboard, Query, Row, panel, quantile, rate

_QUOTA = "scheduler_elastic_quota_status"
_HUGE = 2**53
_LARGEST = f"< {_HUGE}"
_NO_PREEMPTION = "nobody has to make room for another pod in that load"


def _quota(field: str, resource: str, scale: str = "") -> tuple[str, str]:
    """A figure of quotas that are not roots; amounts without a bound are left out."""
    labels = f'field="{field}",resource="{resource}",is_parent="false",name=~"$quota"'
    return f"({_QUOTA}{{{labels}}} {_LARGEST}){scale}", f"{{{{name}}}} {field}"


SCHEDULER = Dashboard(
    "koord-scheduler",
    "koord: scheduler",
    "How fast pods find nodes, and who rejects those that do not. For operators and on call.",
    (
        Row(
            "Rates and latencies",
            (
                panel(
                    "Attempts", "ops",
                    (rate("scheduler_schedule_attempts_total", "result"), "{{result}}"),
                    text="Unschedulable ones wait for a change; errors are a failure.",
                ),
                panel(
                    "Length of an attempt", "s",
                    (
                        quantile(0.5, "scheduler_scheduling_attempt_duration_seconds", "result"),
                        "{{result}} median",
                    ),
                    (
                        quantile(0.99, "scheduler_scheduling_attempt_duration_seconds", "result"),
                        "{{result}} 99th percentile",
                    ),
                    text="From the choice of a pod to its binding or rejection.",
                ),
                panel(
                    "From ready to bound", "s",
                    (quantile(0.5, "scheduler_pod_scheduling_sli_duration_seconds"), "median"),
                    (quantile(0.99, "scheduler_pod_scheduling_sli_duration_seconds"),
                     "99th percentile"),
                    text="What a user waits, gates and quotas left out.",
                ),
            ),
        ),
        Row(
            "Queues",
            (
                panel(
                    "Pods that wait", "short",
                    ("sum by (queue) (scheduler_pending_pods)", "{{queue}}"),
                    text="Active ones are to be tried now: a number that stays is a backlog.",
                    stacked=True,
                ),
                panel(
                    "What brings pods back", "ops",
                    (
                        f"topk(8, {rate('scheduler_queue_incoming_pods_total', 'queue, event')})",
                        "{{queue}} {{event}}",
                    ),
                    text="Events after which a pod is tried again.",
                ),
                panel(
                    "Rejections by plugin", "short",
                    ("sum by (plugin) (scheduler_unschedulable_pods)", "{{plugin}}"),
                    text="Pods that wait after a rejection, once for each plugin that rejected "
                    "them; koord explain pod says why.",
                ),
            ),
        ),
        Row(
            "Where time goes",
            (
                panel(
                    "CPU of decisions", "percentunit",
                    (rate("koord_scheduler_decision_seconds_total"), "of one CPU"),
                    text="Near one the scheduler can do no more.",
                ),
                panel(
                    "Slowest plugins", "s",
                    (
                        "topk(8, " + quantile(
                            0.99, "scheduler_plugin_execution_duration_seconds",
                            "plugin, extension_point",
                        ) + ")",
                        "{{plugin}} {{extension_point}}",
                    ),
                    text="99th percentile of every tenth attempt.",
                ),
                panel(
                    "Extension points", "s",
                    (
                        quantile(
                            0.99, "scheduler_framework_extension_point_duration_seconds",
                            "extension_point",
                        ),
                        "{{extension_point}}",
                    ),
                    text="99th percentile of every tenth attempt.",
                ),
            ),
        ),
        Row(
            "Preemption and health",
            (
                panel(
                    "Preemption", "ops",
                    (rate("scheduler_preemption_attempts_total"), "attempts"),
                    Query(
                        rate("scheduler_preemption_victims_sum"), "victims", _NO_PREEMPTION,
                    ),
                    text="Attempts to make room, and pods that had to go for them.",
                ),
                panel(
                    "Lag of watches", "s",
                    (
                        quantile(0.99, "koord_informer_lag_seconds", "kind",
                                 '{job="koord-scheduler"}'),
                        "{{kind}}",
                    ),
                    text="From an event's arrival to its last handler.",
                ),
                panel(
                    "Drift, contradictions, time-outs", "short",
                    Query("sum by (kind) (koord_scheduler_cache_drift)", "drift {{kind}}",
                          "comparisons begin minutes after the start"),
                    Query("sum by (key) (koord_scheduler_contradicted_pods)",
                          "contradiction {{key}}", "no pod of that load contradicts itself"),
                    Query("sum by (profile) (scheduler_scheduling_timeout)",
                          "time-outs {{profile}}", "no attempt of that load takes 30 s"),
                    ('sum(leader_election_master_status{name="koord-scheduler"})', "leaders"),
                    text="All zero but the leader, which is one.",
                ),
            ),
        ),
    ),
)  # fmt: skip

QUOTAS = Dashboard(
    "koord-quotas",
    "koord: quotas and gangs",
    "What is a team's, what it borrows, which jobs wait. For batch users and who serves them.",
    (
        Row(
            "CPU by quota",
            (
                panel(
                    "Used and runtime", "cores",
                    _quota("used", "cpu", " / 1000"),
                    _quota("runtime", "cpu", " / 1000"),
                    text="Runtime is what a quota may use now: its own and what others leave idle.",
                ),
                panel(
                    "Requested, min and max", "cores",
                    _quota("request", "cpu", " / 1000"),
                    _quota("min", "cpu", " / 1000"),
                    _quota("max", "cpu", " / 1000"),
                    text="Below min is a quota's own; up to max may be borrowed.",
                ),
                panel(
                    "Borrowed", "cores",
                    (
                        f'clamp_min(({_QUOTA}{{field="used",resource="cpu",is_parent="false",'
                        f'name=~"$quota"}} - ignoring(field) {_QUOTA}{{field="min",resource="cpu",'
                        'is_parent="false",name=~"$quota"}) / 1000, 0)',
                        "{{name}}",
                    ),
                    text="Used beyond min: what the owner may ask back.",
                ),
            ),
        ),
        Row(
            "Memory by quota",
            (
                panel(
                    "Used and runtime", "bytes",
                    _quota("used", "memory"), _quota("runtime", "memory"),
                    text="As for CPU.",
                ),
                panel(
                    "Requested, min and max", "bytes",
                    _quota("request", "memory"), _quota("min", "memory"), _quota("max", "memory"),
                    text="As for CPU.",
                ),
            ),
        ),
        Row(
            "Gangs and reservations",
            (
                panel(
                    "Gangs", "short",
                    ("sum by (state) (koord_scheduler_gangs)", "{{state}}"),
                    text="Incomplete ones lack pods, waiting ones nodes.", stacked=True,
                ),
                panel(
                    "Pods of gangs", "short",
                    ("sum by (state) (koord_scheduler_gang_pods)", "{{state}}"),
                    text="Waiting pods hold a node until the rest of their gang has one.",
                    stacked=True,
                ),
                panel(
                    "Reservations", "short",
                    ("sum by (phase) (scheduler_reservation_status_phase)", "{{phase}}"),
                    text="By phase.", stacked=True,
                ),
            ),
        ),
    ),
    {"quota": _QUOTA},
)  # fmt: skip
