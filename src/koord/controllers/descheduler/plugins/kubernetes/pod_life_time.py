# SPDX-License-Identifier: Apache-2.0
"""PodLifeTime: pods that are too old, or in a state, condition or exit that is named.

Rule: docs/reference/descheduling-plugins.md#podlifetime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    StrategyArgs,
    age_seconds,
    check_words,
    exit_codes,
    terminated_reasons,
    waiting_reasons,
)
from koord.controllers.descheduler.predicates.pod_order import by_age
from koord.controllers.scheduler.config.plugin_args import ConfigStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import ContainerStatus, Pod, PodCondition
    from koord.controllers.scheduler.config.field_path import FieldPath

_PHASES = ("Running", "Pending", "Succeeded", "Failed", "Unknown")
_POD_REASONS = ("NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
_WAITING = (
    "PodInitializing", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff",
    "CreateContainerConfigError", "ErrImagePull", "CreateContainerError", "InvalidImageName",
)  # fmt: skip
_TERMINATED = (
    "OOMKilled", "Error", "Completed", "DeadlineExceeded", "Evicted", "ContainerCannotRun",
    "StartError",
)  # fmt: skip
STATES = (*_PHASES, *_POD_REASONS, *_WAITING, *_TERMINATED)
"""What ``states`` may name."""


class ConditionFilter(ConfigStruct, frozen=True):
    """A condition of pods; what is not set fits any."""

    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: int | None = None

    def check(self, at: FieldPath) -> None:
        """At least one field is set."""
        least = self.min_time_since_last_transition_seconds
        is_set = bool(self.type or self.status or self.reason or least is not None)
        expected = "one of type, status, reason and minTimeSinceLastTransitionSeconds at least"
        at.need(is_set, "nothing", expected)
        if least is not None:
            at.inside("minTimeSinceLastTransitionSeconds").at_least(least, 0)

    def holds(self, condition: PodCondition, now: float) -> bool:
        """Whether a condition is one of these.

        A minimum of 0 seconds still wants a transition that has a time, and not one in the future.
        """
        pairs = (
            (self.type, condition.type),
            (self.status, condition.status),
            (self.reason, condition.reason),
        )
        if any(wanted and wanted != value for wanted, value in pairs):
            return False
        least = self.min_time_since_last_transition_seconds
        if least is None:
            return True
        moment = condition.last_transition_time
        seconds = -1.0 if moment is None else now - moment.timestamp()
        return seconds >= 0 and int(seconds) >= least


class OwnerKinds(ConfigStruct, frozen=True):
    """Kinds of owners: one list of the two."""

    include: list[str] = []
    exclude: list[str] = []

    def check(self, at: FieldPath) -> None:
        """Refuses both lists at once."""
        both = bool(self.include and self.exclude)
        at.need(not both, "include and exclude", "one of include and exclude")

    def holds(self, pod: Pod) -> bool:
        """Whether a pod's owners are such; a pod without owners has none that is included."""
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if self.include:
            return not kinds.isdisjoint(self.include)
        return kinds.isdisjoint(self.exclude)


class PodLifeTimeArgs(StrategyArgs, frozen=True):
    """Which pods have lived long enough."""

    max_pod_life_time_seconds: int | None = None
    states: list[str] = []
    conditions: list[ConditionFilter] = []
    exit_codes: list[int] = []
    owner_kinds: OwnerKinds | None = None
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def check(self, at: FieldPath) -> None:
        """Something is asked for, and all of it is known."""
        super().check(at)
        age = self.max_pod_life_time_seconds
        is_set = age is not None or bool(self.states or self.conditions or self.exit_codes)
        expected = "one of maxPodLifeTimeSeconds, states, conditions and exitCodes at least"
        at.need(is_set, "nothing", expected)
        if age is not None:
            at.inside("maxPodLifeTimeSeconds").at_least(age, 0)
        check_words(self.states, STATES, at.inside("states"))
        for index, condition in enumerate(self.conditions):
            condition.check(at.inside("conditions", index))
        if self.owner_kinds is not None:
            self.owner_kinds.check(at.inside("ownerKinds"))


class PodLifeTime(DeschedulerPlugin):
    """The strategy; the oldest go first, whatever node they are on."""

    name = "PodLifeTime"
    args_type = PodLifeTimeArgs
    args: PodLifeTimeArgs

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evicts all pods that every option selects."""
        evictor = self.handle.evictor
        selected = self.args.pod_filter(evictor.accepts)
        pods = [
            pod
            for node in nodes
            for pod in self.handle.snapshot.all_pods_on(node.metadata.name)
            if selected(pod) and self._is_due(pod)
        ]
        for pod in by_age(pods):
            await evictor.evict(pod)

    def _is_due(self, pod: Pod) -> bool:
        args, now = self.args, self.handle.now()
        longest = args.max_pod_life_time_seconds
        if longest is not None and age_seconds(pod, now) <= longest:
            return False
        if args.states and self._states(pod).isdisjoint(args.states):
            return False
        if args.owner_kinds is not None and not args.owner_kinds.holds(pod):
            return False
        if args.conditions and not any(
            wanted.holds(condition, now)
            for wanted in args.conditions
            for condition in pod.status.conditions
        ):
            return False
        codes = set(exit_codes(self._statuses(pod, ephemeral=False)))
        return not args.exit_codes or not codes.isdisjoint(args.exit_codes)

    def _states(self, pod: Pod) -> set[str]:
        statuses = self._statuses(pod, ephemeral=self.args.including_ephemeral_containers)
        reasons = {*waiting_reasons(statuses), *terminated_reasons(statuses)}
        return {pod.status.phase, pod.status.reason, *reasons}

    def _statuses(self, pod: Pod, *, ephemeral: bool) -> list[ContainerStatus]:
        status = pod.status
        return [
            *status.container_statuses,
            *(status.init_container_statuses if self.args.including_init_containers else ()),
            *(status.ephemeral_container_statuses if ephemeral else ()),
        ]
