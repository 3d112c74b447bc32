# SPDX-License-Identifier: Apache-2.0
"""Quota groups in their three shapes, and pod groups."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.kinds.meta import LabelSelector, Object, ResourceList
from koord.api.schema import REQUIRED, Int32, Time
from koord.api.wirestruct import WireStruct, emitted


class ElasticQuotaSpec(WireStruct):
    """What a group is guaranteed and what it may reach.

    Attributes:
        min: guaranteed to the group.
        max: never exceeded by the group.
    """

    min: ResourceList = {}
    max: ResourceList = {}


class ElasticQuotaStatus(WireStruct):
    """What the pods of a group use."""

    used: ResourceList = {}


class ElasticQuota(Object):
    """A group of the quota tree (``scheduling.sigs.k8s.io``); its place is in its labels."""

    spec: ElasticQuotaSpec = field(default_factory=ElasticQuotaSpec)
    status: ElasticQuotaStatus = field(default_factory=ElasticQuotaStatus)


class GroupQuotaSpec(WireStruct):
    """A quota without a tree.

    Attributes:
        hard: never exceeded, also where max is more.
        min: guaranteed to the group.
        max: how far it may borrow.
        priority: idle quota goes to groups of higher priority first.
    """

    hard: ResourceList = {}
    min: ResourceList = {}
    max: ResourceList = {}
    priority: Int32 = 0


class GroupQuotaStatus(WireStruct):
    """What the group may use now, what it uses, and what each of its pods holds."""

    allocated_quota: ResourceList = {}
    used: ResourceList = {}
    pod_allocated_quota: dict[str, ResourceList] = {}


class GroupQuota(Object):
    """The ElasticQuota of ``quota.koordinator.sh``: one flat group with a priority."""

    spec: GroupQuotaSpec = field(default_factory=GroupQuotaSpec)
    status: GroupQuotaStatus = field(default_factory=GroupQuotaStatus)


class ElasticQuotaProfileSpec(WireStruct):
    """Which nodes make up a quota tree.

    Attributes:
        quotaName: the root group to keep up to date.
        quotaLabels: labels to set on it.
        resourceRatio: share of the nodes' resources, a decimal in (0, 1].
        nodeSelector: labels of the nodes.
    """

    quota_name: Annotated[str, REQUIRED] = emitted(str)
    quota_labels: dict[str, str] = {}
    resource_ratio: str | None = None
    node_selector: Annotated[LabelSelector | None, REQUIRED] = None


class ElasticQuotaProfile(Object):
    """The root group of a quota tree, sized by a selection of nodes."""

    spec: ElasticQuotaProfileSpec = field(default_factory=ElasticQuotaProfileSpec)


class PodGroupSpec(WireStruct):
    """How many pods a gang needs before any of them runs."""

    min_member: Int32 = 0
    min_resources: ResourceList = {}
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(WireStruct):
    """How far a gang is."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    schedule_start_time: Time | None = None


class PodGroup(Object):
    """Pods that are scheduled together or not at all."""

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)
