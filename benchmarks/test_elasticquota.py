# SPDX-License-Identifier: Apache-2.0
"""A pod's way through its quota, against sums that are kept by hand in plain Python.

The reference does the least that anything could: one group, its runtime known, nothing shared out,
nobody above it. Ours has 100 groups on two levels, whose runtimes follow from all requests.
"""

from __future__ import annotations

from itertools import cycle

from benchmarks.conftest import Gate
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.elasticquota.admission import RuntimeQuotaAdmission
from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
from tests.controllers.scheduler.plugins.elasticquota.objects import cluster, pod, quota

PODS, GROUPS = 2_000, 100


def crowded() -> tuple[list[PodInfo], QuotaLedger, RuntimeQuotaAdmission]:
    """Pods of many groups, all known and none placed."""
    groups, ledger, admission = cluster({"cpu": 10**9, "memory": 10**15})
    for i in range(10):
        groups.put(quota(f"team{i}", max={"cpu": "100k", "memory": "1Pi"}))
    for i in range(GROUPS):
        limits = {"cpu": "1k", "memory": "1Ti"}
        groups.put(quota(f"q{i}", parent=f"team{i % 10}", min={"cpu": "10"}, max=limits))
    pods = [pod(f"p{i}", f"q{i % GROUPS}", cpu="10m", memory="1Mi") for i in range(PODS)]
    for each in pods:
        ledger.list_pod(each)
    return pods, ledger, admission


def test_check_and_charge(gate: Gate) -> None:
    pods, ledger, admission = crowded()
    turn = cycle(pods)

    def ours() -> None:
        each = next(turn)
        assert admission.check(each) is None
        ledger.place_pod(each)
        ledger.withdraw(each)

    used = {f"q{i}": {"cpu": 0, "memory": 0} for i in range(GROUPS)}
    limit = {"cpu": 1_000_000, "memory": 1 << 40}
    asked = {"cpu": 10, "memory": 1 << 20}
    names = cycle(used)

    def reference() -> None:
        own = used[next(names)]
        assert not [key for key in asked if own[key] + asked[key] > limit[key]]
        for key, amount in asked.items():
            own[key] += amount
        for key, amount in asked.items():
            own[key] -= amount

    gate("elasticquota: check and charge a pod (sums by hand: 1)", ours, reference, 0.08)
