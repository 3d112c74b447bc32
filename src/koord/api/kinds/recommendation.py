# SPDX-License-Identifier: Apache-2.0
"""Recommendation: the resources a workload should ask for, judged by its history."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.kinds.meta import Condition, LabelSelector, Object, ResourceList
from koord.api.schema import REQUIRED, Time
from koord.api.wirestruct import WireStruct, emitted


class WorkloadReference(WireStruct):
    """A workload of the same namespace."""

    api_version: str = ""
    kind: Annotated[str, REQUIRED] = emitted(str)
    name: Annotated[str, REQUIRED] = emitted(str)


class RecommendationTarget(WireStruct):
    """Whose pods: a ``workload``'s, or those a ``podSelector`` matches."""

    type: Annotated[str, REQUIRED] = emitted(str)
    workload: WorkloadReference | None = None
    pod_selector: LabelSelector | None = None


class RecommendationSpec(WireStruct):
    """Whom the recommendation is for."""

    target: Annotated[RecommendationTarget, REQUIRED] = field(default_factory=RecommendationTarget)


class RecommendedContainer(WireStruct):
    """What one container should ask for."""

    container_name: str = ""
    resources: ResourceList = {}


class RecommendedPod(WireStruct):
    """What a pod of the target should ask for."""

    container_statuses: list[RecommendedContainer] = []


class RecommendationStatus(WireStruct):
    """The recommendation."""

    pod_status: RecommendedPod | None = None
    update_time: Time | None = None
    conditions: list[Condition] = []


class Recommendation(Object):
    """The resources a workload should ask for, judged by its history."""

    spec: RecommendationSpec = field(default_factory=RecommendationSpec)
    status: RecommendationStatus = field(default_factory=RecommendationStatus)
