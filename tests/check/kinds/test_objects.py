# SPDX-License-Identifier: Apache-2.0
"""Bad custom resources and nodes, and every line that is said of each."""

from __future__ import annotations

import pytest

from tests.check.conftest import Lines

RESERVATION = """\
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata: {name: r}
spec:
  template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
  owners: [{object: {name: p, namespace: default}}]
"""
RESERVATIONS = {
    RESERVATION.replace('[{name: c, resources: {requests: {cpu: "1"}}}]', "[]"): [
        "5: warning: Reservation r: spec.template.spec.containers: got nothing, "
        "expected at least one, whose requests it reserves"
    ],
    RESERVATION + "  ttl: 1hour\n": [
        "7: error: Reservation r: spec.ttl: got '1hour', "
        "expected a duration such as 90s, 5m or 1h30m"
    ],
    RESERVATION + "  ttl: -1h\n": [
        "7: error: Reservation r: spec.ttl: got '-1h', expected a duration of 0 or more"
    ],
    RESERVATION + "  alocateOnce: true\n": [
        "7: error: Reservation r: spec.alocateOnce: got 'alocateOnce', "
        "expected a known field, such as allocateOnce"
    ],
    RESERVATION + "  allocatePolicy: Strict\n": [
        "7: error: Reservation r: spec.allocatePolicy: got 'Strict', "
        'expected one of "Aligned", "Restricted"'
    ],
    RESERVATION.replace('cpu: "1"', 'cpu: "-1"'): [
        "5: error: Reservation r: spec.template.spec.containers[0].resources.requests.cpu: "
        "got '-1', expected an amount of 0 or more"
    ],
    RESERVATION.replace('cpu: "1"', "cpu: one"): [
        "5: error: Reservation r: spec.template.spec.containers[0].resources.requests.cpu: "
        "got 'one', expected a number such as 2, 500m, 1.5Gi or 1e3"
    ],
    RESERVATION.replace("[{object: {name: p, namespace: default}}]", "[]"): [
        "6: error: Reservation r: spec.owners: got [], expected at least 1 items"
    ],
    RESERVATION.replace("  owners: [{object: {name: p, namespace: default}}]\n", ""): [
        "4: error: Reservation r: spec.owners: got nothing, expected a value"
    ],
    RESERVATION.replace(
        "{object: {name: p, namespace: default}}",
        "{object: {namespace: x}, labelSelector: {matchExpressions: [{key: a, operator: Is}]}}",
    ): [
        "6: error: Reservation r: spec.owners[0].labelSelector.matchExpressions[0].operator: "
        "got 'Is', expected one of In, NotIn, Exists, DoesNotExist"
    ],
    RESERVATION.replace("name: p, namespace: default", "name: p"): [
        "6: warning: Reservation r: spec.owners[0]: got nothing, expected a namespace: pods of all "
        "namespaces may use it; with --reservation-scope=namespace those of its annotation "
        "koord.sh/owner-namespace"
    ],
    RESERVATION.replace("{name: r}", "{name: r, labels: {scheduling.koordinator.sh/"
                        "reservation-order: first}}"): [
        "3: error: Reservation r: metadata.labels[scheduling.koordinator.sh/reservation-order]: "
        "got 'first', expected an integer of 64 bits"
    ],
    RESERVATION.replace("{name: r}", "{name: Bad_Name}"): [
        "3: error: Reservation Bad_Name: metadata.name: got 'Bad_Name', expected a lowercase RFC "
        "1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
        "start and end with an alphanumeric character"
    ],
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), RESERVATIONS.items(), ids=range(len(RESERVATIONS)))
def test_reservations(lines: Lines, text: str, expected: list[str]) -> None:
    assert lines(RESERVATION) == []
    assert lines(text) == expected


MIGRATION = """\
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: PodMigrationJob
metadata: {name: j}
spec:
"""
MIGRATIONS = {
    MIGRATION + "  podRef: {namespace: default, name: p}\n": [],
    MIGRATION + "  podRef: {namespace: default, name: p}\n  mode: Evict\n": [
        "6: error: PodMigrationJob j: spec.mode: got 'Evict', "
        "expected ReservationFirst or EvictDirectly"
    ],
    MIGRATION + "  podRef: {name: p}\n  ttl: 5\n": [
        "6: error: PodMigrationJob j: spec.ttl: got 5, expected a duration such as 90s, 5m or 1h30m"
    ],
    MIGRATION + "  podRef: {name: p}\n": [
        "5: error: PodMigrationJob j: spec.podRef.namespace: got nothing, "
        "expected the namespace of the pod"
    ],
    MIGRATION + "  paused: false\n": [
        "4: error: PodMigrationJob j: spec.podRef: got nothing, expected a value"
    ],
}


@pytest.mark.parametrize(("text", "expected"), MIGRATIONS.items(), ids=range(len(MIGRATIONS)))
def test_migration_jobs(lines: Lines, text: str, expected: list[str]) -> None:
    assert lines(text) == expected


def test_pod_groups(lines: Lines) -> None:
    text = """\
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: g
  annotations:
    gang.scheduling.koordinator.sh/mode: Loose
    gang.scheduling.koordinator.sh/groups: '["a/b", "a/b,a/c"]'
spec:
  minMember: -5
  scheduleTimeoutSeconds: -1
"""
    mode = "metadata.annotations[gang.scheduling.koordinator.sh/mode]"
    assert lines(text) == [
        f"6: error: PodGroup g: {mode}: got 'Loose', expected Strict or NonStrict",
        "7: error: PodGroup g: metadata.annotations[gang.scheduling.koordinator.sh/groups][1]: "
        "got 'a/b,a/c', expected NAMESPACE/NAME of one gang: "
        "the group waits for a gang that is called so",
        "9: error: PodGroup g: spec.minMember: got -5, expected an integer of at least 0",
        "10: error: PodGroup g: spec.scheduleTimeoutSeconds: got -1, "
        "expected a number of seconds of 0 or more",
    ]


def test_profiles(lines: Lines) -> None:
    text = """\
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: p}
spec:
  selector:
    matchExpressions:
    - {key: a, operator: In}
  probability: "30"
  qosClass: BE
  priorityClassName: koord-prod
  labels:
    koordinator.sh/core-sched-policy: shared
  annotations:
    koordinator.sh/cpuQOS: '{"groupIdenttiy": 1}'
---
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: q}
spec:
  qosClass: LSX
  priorityClassName: koord-batc
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: mine}
value: 5
"""
    assert lines(text) == [
        "7: error: ClusterColocationProfile p: spec.selector.matchExpressions[0].values: got [], "
        "expected one value or more",
        "8: error: ClusterColocationProfile p: spec.probability: got '30', "
        "expected a number, or a percentage such as 30%",
        "9: error: ClusterColocationProfile p: spec.qosClass: got 'BE with koord-prod', expected "
        "the priority of koord-mid, koord-batch or koord-free with QoS class BE",
        "12: error: ClusterColocationProfile p: spec.labels[koordinator.sh/core-sched-policy]: "
        "got 'shared', expected none or exclusive",
        "14: warning: ClusterColocationProfile p: spec.annotations[koordinator.sh/cpuQOS]"
        ".groupIdenttiy: got 'groupIdenttiy', expected a known key, such as groupIdentity",
        "20: error: ClusterColocationProfile q: spec.qosClass: got 'LSX', "
        'expected one of "LSE", "LSR", "LS", "BE", "SYSTEM"',
        "21: warning: ClusterColocationProfile q: spec.priorityClassName: got 'koord-batc', "
        "expected the name of a PriorityClass of the files, such as koord-batch",
    ]


def test_a_node_that_holds_back_less_than_nothing(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: Node
metadata:
  name: n
  annotations:
    node.koordinator.sh/reservation: '{"resources": {"cpu": "-2"}}'
"""
    assert lines(text) == [
        "6: error: Node n: metadata.annotations[node.koordinator.sh/reservation].resources.cpu: "
        "got '-2', expected an amount of 0 or more",
    ]


def test_nodes(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: Node
metadata:
  name: n
  labels:
    node.koordinator.sh/cpu-reclaim-ratio: 65percent
    node.koordinator.sh/memory-reclaim-ratio: "65"
    node.koordinator.sh/cpu-bind-policy: FullPCPUs
    node.koordinator.sh/cpu-normalization-enabled: "yes"
  annotations:
    node.koordinator.sh/reservation: '{"reservedCPUs": "0-x"}'
    node.koordinator.sh/colocation-strategy: '{"degradeTimeMinutes": 0}'
    node.koordinator.sh/cpu-normalization-ratio: "-1"
    node.koordinator.sh/resource-amplification-ratio: '{"cpu": "1.5"}'
    node.koordinator.sh/system-qos-resource: '{"cpuset": "0-"}'
    node.koordinator.sh/network-bandwidth: 10 gigabit
"""
    labels, notes = "Node n: metadata.labels[node", "Node n: metadata.annotations[node"
    assert lines(text) == [
        f"6: error: {labels}.koordinator.sh/cpu-reclaim-ratio]: got '65percent', "
        "expected a number from 0 to 1 (as if it were not there)",
        f"7: warning: {labels}.koordinator.sh/memory-reclaim-ratio]: got '65', "
        "expected a number from 0 to 1 (taken as 1)",
        f"8: error: {labels}.koordinator.sh/cpu-bind-policy]: got 'FullPCPUs', "
        "expected None or FullPCPUsOnly or SpreadByPCPUs",
        f"9: error: {labels}.koordinator.sh/cpu-normalization-enabled]: got 'yes', "
        'expected "true" or "false"',
        f"11: error: {notes}.koordinator.sh/reservation].reservedCPUs: got '0-x', "
        "expected ids and ranges such as 0-3,8",
        f"12: error: {notes}.koordinator.sh/colocation-strategy].degradeTimeMinutes: got 0, "
        "expected a number >= 1 (as if it were not there)",
        f"13: error: {notes}.koordinator.sh/cpu-normalization-ratio]: got '-1', "
        "expected a number above 0, at most 5",
        f"14: error: {notes}.koordinator.sh/resource-amplification-ratio].cpu: got '1.5', "
        "expected a number",
        f"15: error: {notes}.koordinator.sh/system-qos-resource].cpuset: got '0-', "
        "expected ids and ranges such as 0-3,8",
        f"16: error: {notes}.koordinator.sh/network-bandwidth]: got '10 gigabit', "
        "expected a suffix of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as e3",
    ]


def test_amplification_ratios_of_a_node(lines: Lines) -> None:
    text = """\
apiVersion: v1
kind: Node
metadata:
  name: n
  annotations:
    node.koordinator.sh/resource-amplification-ratio: '{"cpu":0.5,"memory":50,"x":1001,"y":10}'
"""
    where = "Node n: metadata.annotations[node.koordinator.sh/resource-amplification-ratio]"
    assert lines(text) == [
        f"6: error: {where}.cpu: got 0.5, expected a ratio from 1 to 1000",
        f"6: error: {where}.x: got 1001.0, expected a ratio from 1 to 1000",
        f"6: warning: {where}.memory: got 50.0, expected a ratio of at most 10: "
        "a node cannot keep what it offers beyond that",
    ]


def test_node_slo(lines: Lines) -> None:
    text = """\
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeSLO
metadata: {name: n}
spec:
  resourceUsedThresholdWithBE:
    cpuSuppressThresholdPercent: 165
    cpuSuppressPolicy: cpusets
    memoryEvictThresholdPercent: 70
    memoryEvictLowerPercent: 80
  cpuBurstStrategy: {policy: sometimes}
  resourceQOSStrategy:
    lsClass: {cpuQOS: {groupIdentity: 9}}
  hostApplications:
  - {name: a, qos: LSX}
  - {name: b, qos: LS, cgroupPath: {base: Kubepod}}
  - {name: b, priority: gold}
"""
    assert lines(text) == [
        "6: error: NodeSLO n: spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent: "
        "got 165, expected less than or equal to 100",
        "7: error: NodeSLO n: spec.resourceUsedThresholdWithBE.cpuSuppressPolicy: "
        "got 'cpusets', expected one of cpuset, cfsQuota",
        "9: error: NodeSLO n: spec.resourceUsedThresholdWithBE.memoryEvictLowerPercent: "
        "got 80, expected less than memoryEvictThresholdPercent, 70",
        "10: error: NodeSLO n: spec.cpuBurstStrategy.policy: got 'sometimes', "
        "expected one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto",
        "12: error: NodeSLO n: spec.resourceQOSStrategy.lsClass.cpuQOS.groupIdentity: got 9, "
        "expected a number from -1 to 2",
        "14: error: NodeSLO n: spec.hostApplications[0].qos: got 'LSX', "
        "expected one of LSE, LSR, LS, BE, SYSTEM",
        "15: error: NodeSLO n: spec.hostApplications[1].cgroupPath.base: got 'Kubepod', "
        "expected one of CgroupRoot, Kubepods, KubepodsBurstable, KubepodsBesteffort",
        "16: error: NodeSLO n: spec.hostApplications[2].priority: got 'gold', "
        "expected one of koord-prod, koord-mid, koord-batch, koord-free",
        "16: error: NodeSLO n: spec.hostApplications[2].name: got 'b', expected a name, used once",
    ]
    assert lines(text.partition("  resource")[0] + "  extensions: [1]\n") == [
        "5: error: NodeSLO n: spec.extensions: got [1], expected an object"
    ]


KINDS = {
    "scheduling.sigs.k8s.io/v1alpha1, PodGroups": (
        "2: error: PodGroups a: kind: got 'scheduling.sigs.k8s.io/v1alpha1 PodGroups', "
        "expected a known kind, such as scheduling.sigs.k8s.io/v1alpha1 PodGroup"
    ),
    "scheduling.koordinator.sh/v1beta1, Reservation": (
        "2: error: Reservation a: kind: got 'scheduling.koordinator.sh/v1beta1 Reservation', "
        "expected a known kind, such as scheduling.koordinator.sh/v1alpha1 Reservation"
    ),
    "v1, Podd": "2: error: Podd a: kind: got 'Podd', expected a kind of v1, such as Pod",
    "apps/v1, Deploymnet": (
        "2: error: Deploymnet a: kind: got 'Deploymnet', "
        "expected a kind of apps/v1, such as Deployment"
    ),
}


@pytest.mark.parametrize(("kind", "line"), KINDS.items(), ids=KINDS)
def test_kinds(lines: Lines, kind: str, line: str) -> None:
    version, name = kind.split(", ")
    assert lines(f"apiVersion: {version}\nkind: {name}\nmetadata: {{name: a}}\n") == [line]
