# SPDX-License-Identifier: Apache-2.0
"""ScheduleExplanation: why a pod or a job was, or was not, placed."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.duration import Duration
from koord.api.kinds.meta import Object
from koord.api.kinds.pod import PodTemplateSpec
from koord.api.schema import Schema, Time
from koord.api.wirestruct import WireStruct


class ScheduleExplanationSpec(WireStruct):
    """The question.

    Attributes:
        questionObjectKey: namespace/pod, namespace/job or the id of a gang group.
        ttl: how long the answer is kept; 0 for ever.
    """

    question_object_key: str = ""
    question_object_template: PodTemplateSpec | None = None
    ttl: Annotated[Duration | None, Schema(default="24h")] = None


class PossibleVictim(WireStruct):
    """A pod that would have to go."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    is_nominated_pod: bool = False


class NodePossibleVictims(WireStruct):
    """The pods that would have to go on one node."""

    node_name: str = ""
    possible_victims: list[PossibleVictim] = []


class SchedulingResult(WireStruct):
    """Where a pod would go."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    node_name: str = ""


class NodeFailedDetail(WireStruct):
    """Nodes that one plugin turned down for one reason."""

    failed_plugin: str = ""
    reason: str = ""
    preempt_might_help: bool = False
    failed_nodes: list[str] = []


class NodeLevelExplanation(WireStruct):
    """The answer of one attempt over the nodes of a domain."""

    schedulable: bool = False
    failed_message: str = ""
    feasible_scheduling_result: list[SchedulingResult] = []
    node_failed_details: list[NodeFailedDetail] = []


class DomainExplanation(WireStruct):
    """The answer for one topology domain."""

    topology_domain: str = ""
    schedulable: bool = False
    schedulable_after_preemption: bool = False
    failed_message: str = ""
    schedule_explanation: NodeLevelExplanation | None = None
    node_possible_victims: list[NodePossibleVictims] = []
    preempt_explanation: NodeLevelExplanation | None = None


class ScheduleExplanationStatus(WireStruct):
    """The answer, refreshed at least once a minute."""

    schedulable: bool = False
    schedulable_after_preemption: bool = False
    failed_message: str = ""
    last_update_time: Time | None = None
    detailed_explanation: list[DomainExplanation] = []


class ScheduleExplanation(Object):
    """Why a pod or a job was, or was not, placed."""

    spec: ScheduleExplanationSpec = field(default_factory=ScheduleExplanationSpec)
    status: ScheduleExplanationStatus = field(default_factory=ScheduleExplanationStatus)
