# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfile: how pods join co-location without a change of their manifests."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.kinds.meta import Condition, LabelSelector, Object
from koord.api.schema import FreeForm, Int32, IntOrString, Schema
from koord.api.wirestruct import WireStruct

VALID = "Valid"
"""Condition: whether the profile can be used as it is written."""


class ClusterColocationProfileSpec(WireStruct):
    """Which pods, and what is set on them.

    Attributes:
        namespaceSelector: labels of the pods' namespaces.
        selector: labels of the pods.
        probability: share of the pods, a number or text such as 30%.
        qosClass: the QoS class label.
        priorityClassName: the priority class.
        koordinatorPriority: the sub-priority label.
        labels: labels to set.
        annotations: annotations to set.
        labelKeysMapping: labels to copy, from the key named first to the one that it maps to.
        annotationKeysMapping: annotations to copy, likewise.
        labelSuffixes: text to append to labels that exist.
        schedulerName: the scheduler.
        patch: a strategic merge patch of the pod, applied last.
    """

    namespace_selector: LabelSelector | None = None
    selector: LabelSelector | None = None
    probability: IntOrString | None = None
    qos_class: Annotated[str, Schema(enum=("LSE", "LSR", "LS", "BE", "SYSTEM"))] = field(
        default="", name="qosClass"
    )
    priority_class_name: str = ""
    koordinator_priority: Int32 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    label_keys_mapping: dict[str, str] = {}
    annotation_keys_mapping: dict[str, str] = {}
    label_suffixes: dict[str, str] = {}
    scheduler_name: str = ""
    patch: Annotated[FreeForm | None, Schema(untyped=True)] = None


class ClusterColocationProfileStatus(WireStruct):
    """What is known of the profile; koord's own, the original's is empty.

    Attributes:
        conditions: Valid is False while the profile is passed over.
    """

    conditions: list[Condition] = []


class ClusterColocationProfile(Object):
    """How pods join co-location without a change of their manifests."""

    spec: ClusterColocationProfileSpec = field(default_factory=ClusterColocationProfileSpec)
    status: ClusterColocationProfileStatus = field(default_factory=ClusterColocationProfileStatus)
