# SPDX-License-Identifier: Apache-2.0
"""The alerts, each with its run-book and with series that make it fire and that do not."""

from __future__ import annotations

from typing import NamedTuple

_FAILURES = '{__name__=~"koord_(scheduler|manager|descheduler|koordlet|webhook)_failures_total"}'
_QUOTA = "scheduler_elastic_quota_status"
_LEAF = 'resource="cpu",is_parent="false"'
_OFFERS = (
    'slo_controller_node_extended_resource_allocatable_internal{resource="kubernetes.io/batch-cpu"}'
)
_ALLOWED, _CALLS = "koordlet_be_suppress_cpu_cores", "controller_runtime_webhook_requests_total"
_ATTEMPTS, _LATENCY = "scheduler_schedule_attempts_total", "controller_runtime_webhook_latency"
_ATTEMPT_SECONDS = "scheduler_scheduling_attempt_duration_seconds"
_STRATEGY_FAILURES = "koord_koordlet_strategy_failures_total"
_A_FAILURE = '{node="a",strategy="cpusuppress",code="E"}'
Series = dict[str, str]


class Alert(NamedTuple):
    """A rule and what to do about it.

    Attributes:
        name: of the alert; its run-book's anchor is that in lower case.
        expression: in PromQL.
        minutes: for which it has to hold.
        severity: ``critical`` wakes somebody, ``warning`` waits for the morning, ``info`` is seen.
        summary: a line, with labels as ``{{ $labels.NAME }}``.
        means: what is the matter, and who suffers.
        look: where to look, as items of a list.
        do: what helps, as items of a list.
        fires: series, in promtool's notation of a value a minute, with which it fires within two
            hours.
        quiet: with which it does not.
    """

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    means: str
    look: tuple[str, ...]
    do: tuple[str, ...]
    fires: Series
    quiet: Series


ALERTS = (
    Alert(
        "KoordComponentDown",
        'up{job=~"koord-(scheduler|manager|webhook|descheduler)|koordlet"} == 0',
        10, "warning",
        "{{ $labels.job }} at {{ $labels.instance }} has not answered Prometheus for ten minutes",
        "A process of koord is gone, hangs, or lets Prometheus not ask. Pods that run go on; "
        "without a koordlet its "
        "node's batch pods are neither held down nor offered room, and the manager takes the "
        "offer back.",
        ("`kubectl -n koordinator-system get pods -o wide`, and the pod's log",
         "whether it is the right to ask: an answer 401 or 403 in Prometheus' page of targets"),
        ("a pod that is not ready says why at `/readyz?verbose`",
         "refused: bind `koord-metrics-reader` to Prometheus' account "
         "([security](security.md#ports))"),
        {'up{job="koordlet",instance="a"}': "0x30"},
        {'up{job="koordlet",instance="a"}': "0x5 1x25", 'up{job="other",instance="b"}': "0x30"},
    ),
    Alert(
        "KoordNoLeader",
        "sum by (name) (leader_election_master_status) == 0",
        5, "critical",
        "nobody leads by the Lease {{ $labels.name }}",
        "No process does the component's work: pods stay pending without a scheduler, offers "
        "stand still without a "
        "manager.",
        ("`kubectl -n koordinator-system get lease NAME -o yaml`: who held it last, and since "
         "when",
         "the logs of all replicas: a leader that cannot reach the API server gives up"),
        ("where another program holds the Lease (Koordinator's own, by the same name), only one "
         "of both may run",
         "where the API server is slow, it comes back by itself; `renewDeadline` is how long it "
         "waits"),
        {'leader_election_master_status{name="koord-scheduler",pod="a"}': "0x30",
         'leader_election_master_status{name="koord-scheduler",pod="b"}': "0x30"},
        {'leader_election_master_status{name="koord-scheduler",pod="a"}': "0x30",
         'leader_election_master_status{name="koord-scheduler",pod="b"}': "0 0 0 1x27"},
    ),
    Alert(
        "KoordSchedulerErrors",
        f'sum(rate({_ATTEMPTS}{{result="error"}}[5m])) / sum(rate({_ATTEMPTS}[5m])) > 0.05',
        10, "warning",
        "more than 5 % of the attempts to schedule pods end in an error",
        "Pods that would fit are not bound: a plugin raises, or the API server refuses bindings.",
        ("the scheduler's log: `grep level=error`, which names plugin and pod",
         "`/debug/parts` of the scheduler: parts that failed, and since when",
         "`rest_client_requests_total` with `code` 4xx and 5xx"),
        ("refused with 403: the role is not the one of this version; apply "
         "`deploy/rbac/koord-scheduler.yaml`",
         "a plugin that raises can be left out of the profile until it is mended"),
        {f'{_ATTEMPTS}{{result="error"}}': "0+6x60",
         f'{_ATTEMPTS}{{result="scheduled"}}': "0+60x60"},
        {f'{_ATTEMPTS}{{result="error"}}': "0+1x60",
         f'{_ATTEMPTS}{{result="scheduled"}}': "0+60x60"},
    ),
    Alert(
        "KoordSchedulerBacklog",
        'min_over_time(sum(scheduler_pending_pods{queue="active"})[10m:1m]) > 500',
        10, "warning",
        "more than 500 pods could be tried now and wait for their turn",
        "Pods come faster than they are decided about. All wait longer, batch first.",
        ("the dashboard *koord: scheduler*: CPU of decisions near one means that the processor "
         "is the limit",
         "slowest plugins, and the lag of watches"),
        ("more CPU for the pod, where it is throttled",
         "see [sizing](guide-scheduler.md) and what the slowest plugin is needed for"),
        {'scheduler_pending_pods{queue="active"}': "900x60"},
        {'scheduler_pending_pods{queue="active"}': "900 900 900 20x60",
         'scheduler_pending_pods{queue="unschedulable"}': "9000x60"},
    ),
    Alert(
        "KoordSchedulingSlow",
        f"histogram_quantile(0.99, sum by (le) (rate({_ATTEMPT_SECONDS}_bucket[10m]))) > 1",
        15, "warning",
        "one attempt in a hundred takes longer than a second",
        "Single decisions are slow; nobody is decided about meanwhile.",
        ("slowest plugins on the dashboard *koord: scheduler*",
         "the log's lines of slow attempts (`--scheduling-timeout`) name the pod"),
        ("`koord explain pod NAME` of such a pod says which plugin asks each node by itself",),
        {f'{_ATTEMPT_SECONDS}_bucket{{le="1.024"}}': "0x60",
         f'{_ATTEMPT_SECONDS}_bucket{{le="2.048"}}': "0+60x60",
         f'{_ATTEMPT_SECONDS}_bucket{{le="+Inf"}}': "0+60x60"},
        {f'{_ATTEMPT_SECONDS}_bucket{{le="0.004"}}': "0+60x60",
         f'{_ATTEMPT_SECONDS}_bucket{{le="+Inf"}}': "0+60x60"},
    ),
    Alert(
        "KoordSchedulerDrift",
        "sum by (kind) (koord_scheduler_cache_drift) > 0",
        15, "warning",
        "the scheduler's cache and the API differ: {{ $labels.kind }}",
        "Decisions may be made by what is not so. It is a defect of koord, and each comparison "
        "mends what it finds.",
        ("`/debug/drift` of the scheduler: which objects", "the log's error of that comparison"),
        ("restart the leader if it grows; send the support bundle (`koord support-bundle`)",),
        {'koord_scheduler_cache_drift{kind="requested"}': "0 2x40"},
        {'koord_scheduler_cache_drift{kind="requested"}': "0 2 0x40"},
    ),
    Alert(
        "KoordPartFails",
        f"sum by (job, part) (increase({_FAILURES}[15m])) > 3",
        5, "warning",
        "the part {{ $labels.part }} of {{ $labels.job }} fails again and again",
        "One loop fails and is begun anew after a pause; all others go on. What that loop does "
        "is not done.",
        ("`/debug/parts` of the component: the part's last error",
         "the log: one line for each cause"),
        ("what the error names; a missing definition or right is said there",),
        {'koord_manager_failures_total{job="koord-manager",part="nodeslo"}': "0+1x60"},
        {'koord_manager_failures_total{job="koord-manager",part="nodeslo"}': "0 1 1 2x57"},
    ),
    Alert(
        "KoordWatchesFail",
        "sum by (job, kind) (increase(koord_informer_failures_total[10m])) > 5",
        10, "warning",
        "{{ $labels.job }} cannot list or watch {{ $labels.kind }}",
        "The component works with what it knew last.",
        ("the log: what the API server answered",
         "`koord_informer_served{kind}`: 0 where the kind is not there"),
        ("403: the role is an older one; 429 and 5xx: the API server is busy",),
        {'koord_informer_failures_total{job="koord-manager",kind="Node"}': "0+1x60"},
        {'koord_informer_failures_total{job="koord-manager",kind="Node"}': "0 0 4x58"},
    ),
    Alert(
        "KoordWebhookErrors",
        f'sum by (webhook) (rate({_CALLS}{{code=~"5.."}}[5m])) > 0',
        10, "critical",
        "admission answers {{ $labels.webhook }} with errors",
        "With `failurePolicy: Fail` pods and quotas cannot be made; with `Ignore` they come in "
        "unchanged: batch pods "
        "as ordinary ones.",
        ("koord-webhook's or koord-manager's log: `grep webhook`",
         "`/readyz?verbose`: certificate and caches"),
        ("set `webhookConfiguration.failurePolicy` to `Ignore` until it is mended",),
        {f'{_CALLS}{{webhook="/mutate-pod",code="500"}}': "0+2x60"},
        {f'{_CALLS}{{webhook="/mutate-pod",code="200"}}': "0+90x60",
         f'{_CALLS}{{webhook="/validate-pod",code="403"}}': "0+9x60"},
    ),
    Alert(
        "KoordWebhookSlow",
        f"histogram_quantile(0.99, sum by (le) (rate({_LATENCY}_seconds_bucket[5m]))) > 1",
        10, "warning",
        "one review in a hundred takes longer than a second",
        "Everybody who creates a pod waits for it.",
        ("whether the pod is throttled: `container_cpu_cfs_throttled_periods_total`",
         "which webhook: `controller_runtime_webhook_latency_seconds` by `webhook`"),
        ("more CPU or replicas; `values-large.yaml` has admission as a program of its own",),
        {f'{_LATENCY}_seconds_bucket{{le="1.0"}}': "0x60",
         f'{_LATENCY}_seconds_bucket{{le="10.0"}}': "0+60x60",
         f'{_LATENCY}_seconds_bucket{{le="+Inf"}}': "0+60x60"},
        {f'{_LATENCY}_seconds_bucket{{le="0.01"}}': "0+60x60",
         f'{_LATENCY}_seconds_bucket{{le="+Inf"}}': "0+60x60"},
    ),
    Alert(
        "KoordOffersGone",
        f"sum({_OFFERS}) == 0 and sum({_OFFERS} offset 1h) > 0",
        10, "critical",
        "no node offers CPU to batch any more",
        "Batch pods that run go on, new ones stay pending. Services are not touched.",
        ("whether NodeMetrics are fresh: `kubectl get nodemetrics`; old ones mean that koordlets "
         "do not report",
         "`slo-controller-config`: `koord check` says what of it does not count",
         "`koord explain node NAME`: the formula with its terms"),
        ("undo the last change of `slo-controller-config`",
         "see KoordComponentDown for koordlets"),
        {_OFFERS: "40x65 0x30"},
        {_OFFERS: "40x65 3x30"},
    ),
    Alert(
        "KoordBatchHeldDown",
        f"count(sum by (node) ({_ALLOWED}) < sum by (node) ({_OFFERS})) "
        f"/ count(sum by (node) ({_ALLOWED})) > 0.5",
        30, "info",
        "on more than half of the nodes batch has less CPU than it was offered",
        "Batch is slower than it was promised, services are protected. Offers follow within "
        "minutes as a rule, so that "
        "this means a settings gap between both.",
        ("`koord explain node NAME`: usage, offer and suppression side by side",
         "`cpuSuppressThresholdPercent` beside `cpuReclaimThresholdPercent`"),
        ("offer less (`cpuReclaimThresholdPercent`), or let agents allow more",),
        {f'{_ALLOWED}{{node="a"}}': "4x90", f'{_ALLOWED}{{node="b"}}': "4x90",
         _OFFERS.replace("}", ',node="a"}'): "9x90", _OFFERS.replace("}", ',node="b"}'): "9x90"},
        {f'{_ALLOWED}{{node="a"}}': "4x90", f'{_ALLOWED}{{node="b"}}': "12x90",
         _OFFERS.replace("}", ',node="a"}'): "9x90", _OFFERS.replace("}", ',node="b"}'): "9x90"},
    ),
    Alert(
        "KoordEvictionStorm",
        "sum(increase(koordlet_pod_eviction[10m])) > 20 + 0.1 * "
        "count(koordlet_node_used_cpu_cores)",
        5, "warning",
        "agents evict many pods",
        "Batch work is lost faster than it should be: more is offered than services leave.",
        ("the dashboard *koord: cluster*: evictions by reason, offers beside what is used",
         "events of evicted pods; `koord explain node NAME`"),
        ("offer less (`cpuReclaimThresholdPercent`, `memoryReclaimThresholdPercent`)",
         "longer windows or lower thresholds of eviction in `resource-threshold-config`"),
        {'koordlet_pod_eviction{node="a",reason="evictPodByNodeMemoryUsage"}': "0+5x60",
         'koordlet_node_used_cpu_cores{node="a"}': "9x60"},
        {'koordlet_pod_eviction{node="a",reason="evictPodByNodeMemoryUsage"}': "0 0 4x58",
         'koordlet_node_used_cpu_cores{node="a"}': "9x60"},
    ),
    Alert(
        "KoordStrategyFails",
        "sum by (strategy, code) (increase(koord_koordlet_strategy_failures_total[15m])) > 3",
        10, "warning",
        "the agents' strategy {{ $labels.strategy }} gives rounds up: {{ $labels.code }}",
        "What the strategy does is not done on some nodes; for suppression that means that "
        "services may suffer.",
        ("`koord_koordlet_strategy_failures_total` by `node`",
         "`koord node status` there, and the agent's log"),
        ("the code's page in the reference says what is wrong",),
        {f"{_STRATEGY_FAILURES}{_A_FAILURE}": "0+1x60"},
        {f"{_STRATEGY_FAILURES}{_A_FAILURE}": "0 2x59"},
    ),
    Alert(
        "KoordDeschedulerErrors",
        'sum(rate(koord_descheduler_rounds_total{result="error"}[10m])) > 0',
        20, "warning",
        "rounds of the descheduler end in errors",
        "Pods stay where they run in the wrong place.",
        ("the descheduler's log: which plugin, and why", "`/debug/parts`"),
        ("a plugin's arguments: `koord check FILE`; a missing right: the extra manifests of "
         "`deploy/rbac`",),
        {'koord_descheduler_rounds_total{result="error"}': "0+1x60"},
        {'koord_descheduler_rounds_total{result="error"}': "0 1x59",
         'koord_descheduler_rounds_total{result="success"}': "0+6x60"},
    ),
    Alert(
        "KoordQuotaStarved",
        f'({_QUOTA}{{field="used",{_LEAF}}} < ignoring(field) {_QUOTA}{{field="min",{_LEAF}}}) '
        f'and ignoring(field) ({_QUOTA}{{field="request",{_LEAF}}} '
        f'>= ignoring(field) {_QUOTA}{{field="min",{_LEAF}}})',
        30, "warning",
        "the quota {{ $labels.name }} has less CPU than its min and asks for it",
        "A team waits for what is its own: others have borrowed it and are not preempted, or no "
        "node has room.",
        ("`koord explain quota NAME`: who has borrowed, and what is taken back",
         "`koord explain pod NAME` of one of its pods"),
        ("allow quotas to be taken back from borrowers (`monitorAllQuotas`, "
         "`enableCheckParentQuota` of ElasticQuota's arguments)",
         "the sum of all min is above what the cluster has: lower some"),
        {f'{_QUOTA}{{name="a",field="used",{_LEAF}}}': "2000x60",
         f'{_QUOTA}{{name="a",field="min",{_LEAF}}}': "8000x60",
         f'{_QUOTA}{{name="a",field="request",{_LEAF}}}': "9000x60"},
        {f'{_QUOTA}{{name="a",field="used",{_LEAF}}}': "2000x60",
         f'{_QUOTA}{{name="a",field="min",{_LEAF}}}': "8000x60",
         f'{_QUOTA}{{name="a",field="request",{_LEAF}}}': "2000x60"},
    ),
    Alert(
        "KoordGangsWait",
        'min_over_time(koord_scheduler_gangs{state="waiting"}[30m]) > 0',
        30, "info",
        "gangs have had all their pods for an hour and no nodes",
        "Jobs whose pods start together find no place for all of them.",
        ("`koord explain gang NAME -n NAMESPACE`: how many nodes would do, and what is lacking",),
        ("room by preemption or quota; a smaller `minMember`",),
        {'koord_scheduler_gangs{state="waiting"}': "2x90"},
        {'koord_scheduler_gangs{state="waiting"}': "0 2x20 0x60"},
    ),
)  # fmt: skip
