# SPDX-License-Identifier: Apache-2.0
"""QoS, priority, resource names, node reservation: the rules as tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import to_document
from koord.api.codec import convert
from koord.api.kinds.meta import ResourceList
from koord.api.protocol import keys, priority, qos, resources
from koord.api.protocol.node_reservation import (
    NodeReservation,
    node_reservation,
    reserved_cpus,
    reserved_resources,
    trimmed_allocatable,
)
from koord.api.protocol.numbers import parse_bool, parse_float, parse_int
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError

from .samples import make_node, make_pod


def amounts(**values: str) -> ResourceList:
    named = {name.replace("__", "/").replace("_", "-"): v for name, v in values.items()}
    return convert(named, ResourceList, "test")


def requests(cpu: str, memory: str = "") -> dict[str, Any]:
    return {"cpu": cpu} | ({"memory": memory} if memory else {})


GUARANTEED = [{"requests": requests("1", "1Gi"), "limits": requests("1000m", "1024Mi")}]
BURSTABLE = [{"requests": requests("100m"), "limits": requests("200m")}]
QOS = keys.QOS_CLASS

QOS_CASES = [
    # labels, containers, status, raw, with default
    ({}, [{}], {}, "", "BE"),
    ({}, BURSTABLE, {}, "", "LS"),
    ({}, GUARANTEED, {}, "", "LSR"),
    ({}, [{"limits": requests("1", "1Gi")}], {}, "", "LSR"),
    ({}, [*GUARANTEED, {}], {}, "", "LS"),
    ({}, [{"requests": requests("0")}], {}, "", "BE"),
    ({}, [{"requests": {"example.com/thing": "1"}}], {}, "", "BE"),
    ({}, [{}], {"qosClass": "Burstable"}, "", "LS"),
    ({}, [{}], {"qosClass": "Unknown"}, "", ""),
    ({QOS: "LSE"}, [{}], {}, "LSE", "LSE"),
    ({QOS: "SYSTEM"}, [{}], {}, "SYSTEM", "SYSTEM"),
    ({QOS: "ls"}, [{}], {}, "", "BE"),
    ({QOS: ""}, BURSTABLE, {}, "", "LS"),
]


@pytest.mark.parametrize(("labels", "containers", "status", "raw", "default"), QOS_CASES)
def test_qos(
    labels: dict[str, str], containers: list[Any], status: dict[str, str], raw: str, default: str
) -> None:
    pod = make_pod(labels=labels, containers=containers, annotations={QOS: "BE"}, status=status)
    assert qos.raw_qos(pod.metadata.labels) == raw
    assert qos.qos_with_default(pod) == default


def test_the_class_of_guaranteed_pods_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qos, "GUARANTEED_DEFAULT", QoSClass.LS)
    assert qos.qos_with_default(make_pod(containers=GUARANTEED)) == "LS"


PRIORITY_CASES = [
    # labels, priority, containers, raw, with default, value
    ({}, 9499, [{}], "koord-prod", "koord-prod", 9499),
    ({keys.PRIORITY_CLASS: "koord-prod"}, 5499, [{}], "koord-prod", "koord-prod", 5499),
    ({keys.PRIORITY_CLASS: "unknown"}, 5499, [{}], "", "koord-batch", 5499),
    ({keys.PRIORITY_CLASS: "unknown"}, 5499, BURSTABLE, "", "koord-prod", 5499),
    ({QOS: "LSR"}, 5499, [{}], "koord-batch", "koord-batch", 5499),
    ({QOS: "LSR"}, None, [{}], "", "koord-prod", 9500),
    ({}, None, BURSTABLE, "", "koord-prod", 9500),
    ({}, None, [{}], "", "koord-batch", 5500),
    ({}, 0, [{}], "", "koord-batch", 5500),
    ({}, 3000, [{}], "koord-free", "koord-free", 3000),
    ({}, 7999, [{}], "koord-mid", "koord-mid", 7999),
    ({}, 8000, [{}], "", "koord-batch", 8000),
    ({keys.PRIORITY_CLASS: "koord-mid"}, None, [{}], "koord-mid", "koord-mid", 7500),
    ({QOS: "SYSTEM"}, None, [{}], "", "koord-prod", 9500),
]


@pytest.mark.parametrize(
    ("labels", "number", "containers", "raw", "default", "value"), PRIORITY_CASES
)
def test_priority(
    labels: dict[str, str], number: int | None, containers: list[Any], raw: str, default: str,
    value: int,
) -> None:  # fmt: skip
    pod = make_pod(labels=labels, priority=number, containers=containers)
    assert priority.raw_class(pod.metadata.labels, pod.spec.priority) == raw
    assert priority.class_with_default(pod) == default
    assert priority.priority_with_default(pod) == value


def test_priority_without_a_pod_is_0() -> None:
    assert priority.priority_with_default(None) == 0


@pytest.mark.parametrize("edge", [2999, 4000, 4999, 6000, 6999, 8000, 8999, 10000, -1, 0])
def test_outside_the_bands_there_is_no_class(edge: int) -> None:
    assert priority.class_of_priority(edge) is PriorityClass.NONE


def test_classes_are_enumerated_from_the_top() -> None:
    assert [c.value for c in PriorityClass] == [
        "koord-prod", "koord-mid", "koord-batch", "koord-free", "",
    ]  # fmt: skip


SUB_PRIORITIES = [
    ("", 0), ("7", 7), ("-7", -7), ("+7", 7), ("0x1F", 31), ("0b101", 5), ("0o17", 15),
    ("017", 15), ("0", 0), ("0x_ff", 255), ("1_000", 1000), ("2147483647", 2147483647),
    ("-2147483648", -2147483648), ("08", None), ("2147483648", None), ("1.5", None),
    ("x", None), ("_1", None), ("1__0", None), ("0x", None), (" 1", None), ("٣", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SUB_PRIORITIES)
def test_sub_priority(text: str, value: int | None) -> None:
    pod = make_pod(labels={keys.PRIORITY: text})
    if value is not None:
        assert priority.sub_priority(pod) == value
        return
    with pytest.raises(KoordError) as raised:
        priority.sub_priority(pod)
    assert str(raised.value) == (
        f"Pod default/web: labels[koordinator.sh/priority]: got {text!r}, "
        "expected an integer of 32 bits"
    )


@given(st.text("0123456789abfxo_+-", max_size=8))
def test_base_prefixes_agree_with_python(text: str) -> None:
    def model() -> int | None:
        body = text.lstrip("+-") if text[:1] in ("+", "-") else text
        digits = body.replace("_", "")
        try:
            # Python wants 0o for octal and takes only zeros after a leading one.
            octal = body[:1] == "0" and digits.isdigit() and len(digits) > 1
            return int(f"{text[: len(text) - len(body)]}0o{body}" if octal else text, 0)
        except ValueError:
            return None

    try:
        found = parse_int(text, "o", "f", base_prefix=True)
    except KoordError:
        assert model() is None
    else:
        assert found == model()


def test_preemption() -> None:
    pod = make_pod(labels={keys.PREEMPTION_POLICY: "never", keys.DISABLE_PREEMPTIBLE: "yes"})
    assert priority.preemption_policy(pod) == ""
    assert priority.preemption_policy_with_default(pod) == "Never"
    assert priority.is_preemptible(pod)
    pod = make_pod(
        labels={
            keys.PREEMPTION_POLICY: "PreemptLowerPriority",
            keys.DISABLE_PREEMPTIBLE: "true",
        }
    )
    assert priority.preemption_policy_with_default(pod) == "PreemptLowerPriority"
    assert not priority.is_preemptible(pod)


TRANSLATIONS = [
    (PriorityClass.BATCH, "cpu", "kubernetes.io/batch-cpu"),
    (PriorityClass.BATCH, "memory", "kubernetes.io/batch-memory"),
    (PriorityClass.MID, "cpu", "kubernetes.io/mid-cpu"),
    (PriorityClass.MID, "memory", "kubernetes.io/mid-memory"),
    (PriorityClass.PROD, "cpu", "cpu"),
    (PriorityClass.NONE, "memory", "memory"),
    (PriorityClass.FREE, "cpu", ""),
    (PriorityClass.BATCH, "nvidia.com/gpu", ""),
]


@pytest.mark.parametrize(("priority_class", "native", "extended"), TRANSLATIONS)
def test_translation(priority_class: PriorityClass, native: str, extended: str) -> None:
    assert resources.translated(priority_class, native) == extended
    if extended not in ("", native):
        assert resources.class_of(extended) is priority_class


def test_deprecated_names_never_overwrite() -> None:
    old = amounts(koordinator_sh__batch_cpu="1", cpu="2", kubernetes_io__gpu="100")
    old = {name.replace("koordinator-sh", "koordinator.sh").replace("kubernetes-io",
           "kubernetes.io"): amount for name, amount in old.items()}  # fmt: skip
    old[resources.GPU] = amounts(x="50")["x"]
    assert to_document(resources.with_current_names(old)) == {
        "cpu": "2",
        "kubernetes.io/batch-cpu": "1",
        "kubernetes.io/gpu": "100",
        "koordinator.sh/gpu": "50",
    }


def test_replacement_moves_and_erases() -> None:
    before = amounts(cpu="1500m", memory="1Gi", a="1", b="2", c="3")
    after = resources.replaced(before, {"cpu": "batch", "a": "b", "memory": "mem"}, {"c", "z"})
    assert to_document(after) == {"a": "1", "b": "2", "batch": "1500", "mem": "1Gi"}


def test_amplification() -> None:
    assert resources.amplified(1000, 1.0) == 1000
    assert resources.amplified(1000, 0.5) == 1000
    assert resources.amplified(1001, 1.5) == 1502
    before = amounts(cpu="10", memory="20Gi", pods="3", zero="0")
    after = resources.amplified_list(before, {"cpu": 1.5, "memory": 1.25, "pods": 1.5, "zero": 2})
    assert to_document(after) == {"cpu": "15", "memory": "25Gi", "pods": "5", "zero": "0"}


RESERVED = [
    ('{"resources":{"cpu":"10"}}', ("", 10)),
    ('{"resources":{"cpu":"2.5"}}', ("", 3)),
    ('{"resources":{"cpu":"-0"}}', ("", 0)),
    ('{"reservedCPUs":"0-1"}', ("0-1", 0)),
    ('{"reservedCPUs":"-1"}', ("-1", 0)),
    ('{"resources":{"cpu":"10"},"reservedCPUs":"0-1"}', ("0-1", 0)),
    ('{"RESOURCES":{"cpu":1}}', ("", 1)),
    ("", ("", 0)),
    ("null", ("", 0)),
]


@pytest.mark.parametrize(("text", "expected"), RESERVED)
def test_reserved_cpus(text: str, expected: tuple[str, int]) -> None:
    node = make_node(annotations={keys.NODE_RESERVATION: text})
    assert reserved_cpus(node_reservation(node)) == expected


def test_no_reservation() -> None:
    assert node_reservation(make_node()) is None
    assert reserved_cpus(None) == ("", 0)
    assert reserved_resources(None, "n") == {}


def test_cpus_by_number_count_before_an_amount() -> None:
    reservation = NodeReservation(amounts(cpu="10", memory="1Gi"), "0-3,8,8")
    assert to_document(reserved_resources(reservation, "n")) == {"cpu": "5", "memory": "1Gi"}


def test_bad_reservations() -> None:
    with pytest.raises(KoordError, match=r"Node n1: annotations\[node.koordinator.sh/reservation]"):
        node_reservation(make_node(annotations={keys.NODE_RESERVATION: "{"}))
    with pytest.raises(KoordError, match="reservedCPUs"):
        reserved_resources(NodeReservation(reserved_cpus="a-b"), "n")
    less = '{"resources":{"memory":"-1Gi"},"reservedCPUs":"0-1"}'
    expected = r"reservation]\.resources\[memory]: got '-1Gi', expected an amount of 0 or more"
    with pytest.raises(KoordError, match=expected):
        node_reservation(make_node(annotations={keys.NODE_RESERVATION: less}))
    with pytest.raises(KoordError, match="Reservation r:"):
        reserved_resources(NodeReservation(amounts(cpu="-1n")), "Reservation r")


TRIMMED = [
    (NodeReservation(amounts(cpu="2", memory="5Gi")), {"cpu": "2", "memory": "0"}),
    (NodeReservation(amounts(cpu="2"), "", "Default"), {"cpu": "2", "memory": "4Gi"}),
    (NodeReservation(amounts(cpu="2"), "0", "ReservedCPUsOnly"), {"cpu": "4", "memory": "4Gi"}),
    (NodeReservation(amounts(cpu="2"), "0", "Other"), {"cpu": "4", "memory": "4Gi"}),
    (NodeReservation({}, "0-2"), {"cpu": "1", "memory": "4Gi"}),
    (NodeReservation({}, "zero"), {"cpu": "4", "memory": "4Gi"}),
    (NodeReservation(amounts(cpu="-2", memory="1Gi")), {"cpu": "4", "memory": "4Gi"}),
    (None, {"cpu": "4", "memory": "4Gi"}),
]


@pytest.mark.parametrize(("reservation", "expected"), TRIMMED)
def test_trimming(reservation: NodeReservation | None, expected: dict[str, str]) -> None:
    batch = {resources.BATCH_CPU: "500"}
    allocatable = convert({"cpu": "4", "memory": "4Gi", **batch}, ResourceList, "n")
    assert to_document(trimmed_allocatable(allocatable, reservation)) == {**expected, **batch}


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_true(text: str) -> None:
    assert parse_bool(text, "o", "f")


@pytest.mark.parametrize("text", ["tRUE", "yes", "", " true"])
def test_neither_true_nor_false(text: str) -> None:
    with pytest.raises(KoordError):
        parse_bool(text, "o", "f")


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999", "0x1p3", "1_0", "1e", "-"])
def test_no_numbers(text: str) -> None:
    with pytest.raises(KoordError):
        parse_float(text, "o", "f")
