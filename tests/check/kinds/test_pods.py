# SPDX-License-Identifier: Apache-2.0
"""Bad pods and pod templates, and every line that is said of each."""

from __future__ import annotations

import pytest

from tests.check.conftest import Lines

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: a
  labels:
    {labels}
  annotations:
    {annotations}
spec:
  priorityClassName: {priority}
  containers:
  - name: c
    image: i
    resources: {{requests: {{{requests}}}}}
"""


def pod(
    labels: str = "app: a",
    annotations: str = "note: b",
    priority: str = "koord-prod",
    requests: str = 'cpu: "1"',
) -> str:
    return POD.format(
        labels=labels, annotations=annotations, priority=priority, requests=requests
    )  # fmt: skip


def test_good_pods_have_no_problems(lines: Lines) -> None:
    assert lines(pod(labels="koordinator.sh/qosClass: LSR")) == []
    # A label of somebody's own, as guides show them.
    assert lines(pod(labels='koordinator.sh/enable-colocation: "true"')) == []


LABELS = {
    "koordinator.sh/qosClass: LSX": (
        "6: error: Pod a: metadata.labels[koordinator.sh/qosClass]: got 'LSX', "
        "expected LSE, LSR, LS, BE or SYSTEM"
    ),
    "koordinator.sh/qosClas: LS": (
        "6: warning: Pod a: metadata.labels[koordinator.sh/qosClas]: got 'koordinator.sh/qosClas', "
        "expected a key that koord knows, such as koordinator.sh/qosClass"
    ),
    "scheduling.koordinator.sh/preemption-polcy: Never": (
        "6: warning: Pod a: metadata.labels[scheduling.koordinator.sh/preemption-polcy]: "
        "got 'scheduling.koordinator.sh/preemption-polcy', expected a key that koord knows, "
        "such as scheduling.koordinator.sh/preemption-policy"
    ),
    "koordinator.sh/preemption-policy: Never": (
        "6: warning: Pod a: metadata.labels[koordinator.sh/preemption-policy]: "
        "got 'koordinator.sh/preemption-policy', expected a key that koord knows, "
        "such as scheduling.koordinator.sh/preemption-policy"
    ),
    "quota.scheduling.koordinator.sh/colour: blue": (
        "6: warning: Pod a: metadata.labels[quota.scheduling.koordinator.sh/colour]: "
        "got 'quota.scheduling.koordinator.sh/colour', expected a key that koord knows"
    ),
    "koordinator.sh/priority: high": (
        "6: error: Pod a: metadata.labels[koordinator.sh/priority]: got 'high', "
        "expected an integer of 32 bits"
    ),
    "koordinator.sh/priority-class: koord-bach": (
        "6: error: Pod a: metadata.labels[koordinator.sh/priority-class]: got 'koord-bach', "
        "expected koord-prod, koord-mid, koord-batch or koord-free"
    ),
    "scheduling.koordinator.sh/preemption-policy: never": (
        "6: error: Pod a: metadata.labels[scheduling.koordinator.sh/preemption-policy]: "
        "got 'never', expected Never or PreemptLowerPriority"
    ),
    "quota.scheduling.koordinator.sh/preemptible: maybe": (
        "6: error: Pod a: metadata.labels[quota.scheduling.koordinator.sh/preemptible]: "
        "got 'maybe', expected true or false"
    ),
    "koordinator.sh/core-sched-policy: shared": (
        "6: error: Pod a: metadata.labels[koordinator.sh/core-sched-policy]: got 'shared', "
        "expected none or exclusive"
    ),
    "koordinator.sh/qosClass: BE": (
        "6: error: Pod a: metadata.labels[koordinator.sh/qosClass]: got 'BE with koord-prod', "
        "expected the priority of koord-mid, koord-batch or koord-free with QoS class BE"
    ),
}


@pytest.mark.parametrize(("label", "line"), LABELS.items(), ids=LABELS)
def test_labels(lines: Lines, label: str, line: str) -> None:
    assert lines(pod(labels=label)) == [line]


ANNOTATIONS = {
    """koordinator.sh/cpuQOS: '{"groupIdentity": 7}'""": (
        "8: error: Pod a: metadata.annotations[koordinator.sh/cpuQOS].groupIdentity: got 7, "
        "expected an integer from -1 to 2"
    ),
    """koordinator.sh/cpuBurst: '{"policy": "on"}'""": (
        "8: error: Pod a: metadata.annotations[koordinator.sh/cpuBurst].policy: got 'on', "
        "expected one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto"
    ),
    """koordinator.sh/memoryQOS: '{"policy": "off"}'""": (
        "8: error: Pod a: metadata.annotations[koordinator.sh/memoryQOS].policy: got 'off', "
        "expected default, none or auto"
    ),
    """koordinator.sh/networkQOS: '{"ingressLimit": "50MM"}'""": (
        "8: error: Pod a: metadata.annotations[koordinator.sh/networkQOS].ingressLimit: "
        "got '50MM', expected a suffix of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent "
        "such as e3"
    ),
    """koordinator.sh/networkQOS: '{"ingresLimit": "50M"}'""": (
        "8: warning: Pod a: metadata.annotations[koordinator.sh/networkQOS].ingresLimit: "
        "got 'ingresLimit', expected a known key, such as ingressLimit"
    ),
    "koordinator.sh/oom-score-adj: '2000'": (
        "8: error: Pod a: metadata.annotations[koordinator.sh/oom-score-adj]: got 2000, "
        "expected an integer from -1000 to 1000"
    ),
    "scheduling.koordinator.sh/eviction-cost: '+10'": (
        "8: error: Pod a: metadata.annotations[scheduling.koordinator.sh/eviction-cost]: "
        "got '+10', expected an integer of 32 bits without a plus sign or leading zeros"
    ),
    """scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy": "Strict"}'""": (
        "8: error: Pod a: metadata.annotations[scheduling.koordinator.sh/numa-topology-spec]"
        ".numaTopologyPolicy: got 'Strict', expected BestEffort, Restricted or SingleNUMANode"
    ),
    """scheduling.koordinator.sh/device-allocate-hint: '{"gpu": '""": (
        "8: error: Pod a: metadata.annotations[scheduling.koordinator.sh/device-allocate-hint]: "
        """got '{"gpu": ', expected JSON (Input data was truncated)"""
    ),
    """scheduling.koordinator.sh/load-estimated-scaling-factors: '{"cpu": "80"}'""": (
        "8: error: Pod a: metadata.annotations[scheduling.koordinator.sh/"
        "load-estimated-scaling-factors].cpu: got '80', expected an integer"
    ),
    "pod.koordinator.sh/replace-resources: 'cpu=batch-cpu'": (
        "8: error: Pod a: metadata.annotations[pod.koordinator.sh/replace-resources]: "
        "got 'cpu=batch-cpu', expected OLD:NEW or OLD: as item 1 of the list"
    ),
    "koordinator.sh/qosClass: LS": (
        "8: warning: Pod a: metadata.annotations[koordinator.sh/qosClass]: "
        "got 'koordinator.sh/qosClass', expected a label: as an annotation it says nothing"
    ),
    'scheduling.koordinator.sh/reserve-pod: "true"': (
        "8: error: Pod a: metadata.annotations[scheduling.koordinator.sh/reserve-pod]: got 'true', "
        "expected nothing: the scheduler alone sets it"
    ),
}


@pytest.mark.parametrize(("annotation", "line"), ANNOTATIONS.items(), ids=ANNOTATIONS)
def test_annotations(lines: Lines, annotation: str, line: str) -> None:
    assert lines(pod(annotations=annotation)) == [line]


def test_lines_of_json_on_lines_of_its_own(lines: Lines) -> None:
    annotation = """scheduling.koordinator.sh/reservation-affinity: |
      {
        "requiredDuringSchedulingIgnoredDuringExecution": {
          "reservationSelectorTerms": [
            {"matchExpressions": [{"key": "a",
                                   "operator": "Is"}]}
          ]
        }
      }"""
    assert lines(pod(annotations=annotation)) == [
        "13: error: Pod a: metadata.annotations[scheduling.koordinator.sh/reservation-affinity]"
        ".requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms[0]"
        ".matchExpressions[0].operator: got 'Is', "
        "expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt"
    ]


REQUESTS = {
    'kubernetes.io/batch-cpu: "1000"': [
        "5: warning: Pod a: metadata.labels[koordinator.sh/qosClass]: got nothing, "
        "expected BE, which pods that ask for batch-cpu or batch-memory need"
    ],
    "kubernetes.io/batch-memry: 1Gi": [
        "14: warning: Pod a: spec.containers[0].resources.requests[kubernetes.io/batch-memry]: "
        "got 'kubernetes.io/batch-memry', "
        "expected a resource that koord knows, such as kubernetes.io/batch-memory"
    ],
    'koordinator.sh/gpu: "150"': [
        "14: error: Pod a: spec.containers[0].resources.requests[koordinator.sh/gpu]: got '150', "
        "expected 1 to 100 percent of a card, or whole cards in hundreds"
    ],
    'koordinator.sh/gpu.shared: "2", koordinator.sh/gpu-core: "75", '
    'koordinator.sh/gpu-memory-ratio: "50"': [
        "14: error: Pod a: spec.containers[0].resources.requests[koordinator.sh/gpu-core]: "
        "got '75', expected a multiple of koordinator.sh/gpu.shared, which is 2"
    ],
    'koordinator.sh/gpu-core: "50"': [
        "14: error: Pod a: spec.containers[0].resources.requests: "
        "got 'koordinator.sh/gpu-core 50', expected either koordinator.sh/gpu-memory or "
        "koordinator.sh/gpu-memory-ratio, with koordinator.sh/gpu-core, "
        "koordinator.sh/gpu.shared, both or neither; or koordinator.sh/gpu or nvidia.com/gpu alone"
    ],
    'cpu: "1e30"': [
        "14: error: Pod a: spec.containers[0].resources.requests.cpu: got '1e30', "
        "expected thousandths within 64 bits"
    ],
    'cpu: "-1"': [
        "14: error: Pod a: spec.containers[0].resources.requests.cpu: got '-1', "
        "expected greater than or equal to 0"
    ],
    "memory: 1Gx": [
        "14: error: Pod a: spec.containers[0].resources.requests.memory: got '1Gx', expected a "
        "suffix of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent such as e3"
    ],
}


@pytest.mark.parametrize(("requests", "expected"), REQUESTS.items(), ids=REQUESTS)
def test_requests(lines: Lines, requests: str, expected: list[str]) -> None:
    # Extended resources need a limit as well; that is the server's rule, not what is shown here.
    found = lines(pod(requests=requests).replace("requests:", "limits: {LIMITS}, requests:")
                  .replace("LIMITS", requests if "/" in requests else ""))  # fmt: skip
    assert [line for line in found if ".limits" not in line] == expected


def test_a_share_of_a_cpu_for_lsr(lines: Lines) -> None:
    text = pod(labels="koordinator.sh/qosClass: LSR", requests="cpu: 1500m")
    assert lines(text) == [
        "14: error: Pod a: spec.containers[0].resources.requests.cpu: got '1500m', "
        "expected a whole number of CPUs, which QoS class LSR needs"
    ]


TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replica: 3
  selector: {matchLabels: {app: a}}
  template:
    metadata:
      labels: {app: a, koordinator.sh/qosClass: LSX}
    spec:
      containers:
      - {name: c, image: 7}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: j}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        metadata:
          annotations:
            gang.scheduling.koordinator.sh/name: g
            gang.scheduling.koordinator.sh/min-available: three
            gang.scheduling.koordinator.sh/mode: strict
            gang.scheduling.koordinator.sh/total-number: many
            gang.scheduling.koordinator.sh/waiting-time: 5min
            gang.scheduling.koordinator.sh/match-policy: always
            gang.scheduling.koordinator.sh/groups: a,b
        spec:
          restartPolicy: Never
          containers:
          - {name: c, image: i}
"""


def test_templates_of_workloads(lines: Lines) -> None:
    gang = "CronJob j: spec.jobTemplate.spec.template.metadata.annotations[gang.scheduling"
    assert lines(TEMPLATE) == [
        "5: error: Deployment d: spec.replica: got 'replica', "
        "expected a known field, such as replicas",
        "9: error: Deployment d: spec.template.metadata.labels[koordinator.sh/qosClass]: "
        "got 'LSX', expected LSE, LSR, LS, BE or SYSTEM",
        "12: error: Deployment d: spec.template.spec.containers[0].image: got 7, expected text",
        f"25: error: {gang}.koordinator.sh/min-available]: got 'three', "
        "expected an integer of 32 bits",
        f"26: error: {gang}.koordinator.sh/mode]: got 'strict', expected Strict or NonStrict",
        f"27: error: {gang}.koordinator.sh/total-number]: got 'many', "
        "expected a whole number of pods",
        f"28: error: {gang}.koordinator.sh/waiting-time]: got '5min', "
        "expected a duration such as 30s",
        f"29: error: {gang}.koordinator.sh/match-policy]: got 'always', "
        "expected only-waiting, waiting-and-running or once-satisfied",
        f"30: error: {gang}.koordinator.sh/groups]: got 'a,b', "
        "expected JSON (JSON is malformed: invalid character (byte 0))",
    ]


def test_what_cannot_be_read_hides_nothing_else(lines: Lines) -> None:
    text = pod(labels="koordinator.sh/qosClass: LSX").replace("image: i", "image: 7")
    assert lines(text) == [
        "6: error: Pod a: metadata.labels[koordinator.sh/qosClass]: got 'LSX', "
        "expected LSE, LSR, LS, BE or SYSTEM",
        "13: error: Pod a: spec.containers[0].image: got 7, expected text",
    ]


def test_an_annotation_that_is_no_text(lines: Lines) -> None:
    assert lines(pod(annotations="a: b\n    koordinator.sh/eviction-priority: 5")) == [
        "9: error: Pod a: metadata.annotations[koordinator.sh/eviction-priority]: got 5, "
        "expected text"
    ]
