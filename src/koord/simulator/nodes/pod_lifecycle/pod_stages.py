# SPDX-License-Identifier: Apache-2.0
"""What a kubelet does to a pod, as data: which stage comes next, when, and what comes of it
(`stages/pod.yaml`, `stages/chaos.yaml`).
"""

from __future__ import annotations

from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec

from koord.api.duration import Duration
from koord.base import config, rng
from koord.base.documents import parse_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.pod import Pod

_KIND = ("simulator.koord/v1", "PodStages")

DURATION = "simulator.koord/duration"
EXIT_CODE = "simulator.koord/exit-code"

# Run-to-completion pods that do not say how long they run.
_LEAST_RUN_SECONDS, _MOST_RUN_SECONDS = 5.0, 30.0
# The kubelet's back-off for containers that end.
_FIRST_BACKOFF_SECONDS, _MOST_BACKOFF_SECONDS = 10.0, 300.0
_DEFAULT_GRACE_SECONDS = 30


class _StageMapping(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A mapping whose keys are all known."""


class StageCondition(_StageMapping, frozen=True):
    """Which pods a stage is for: each fact that is named has one of the values listed.

    Attributes:
        deleting: the pod is being deleted.
        forced: it is to be gone at once, with no grace left.
        phase: of its status.
        started: its node has taken it.
        initialized: its init containers are done.
        crashed: a container waits to be started again.
        pull_failed: an image is not there.
        ends: its containers end by themselves.
        succeeds: they end with exit code 0.
        restarts: a container that ended is started again.
        policy: the restart policy.
    """

    deleting: list[bool] = []
    forced: list[bool] = []
    phase: list[str] = []
    started: list[bool] = []
    initialized: list[bool] = []
    crashed: list[bool] = []
    pull_failed: list[bool] = []
    ends: list[bool] = []
    succeeds: list[bool] = []
    restarts: list[bool] = []
    policy: list[str] = []

    def fits(self, facts: PodFacts) -> bool:
        """Whether a pod with these facts is meant."""
        return all(
            not wanted or getattr(facts, name) in wanted
            for name, wanted in msgspec.structs.asdict(self).items()
        )


class StageDelay(_StageMapping, frozen=True):
    """How long a stage takes to come.

    Attributes:
        jitter_seconds: what is drawn by lot on top.
        of: ``duration``: how long the pod runs, counted from its start; ``backoff``: the
            kubelet's for containers that end; ``grace``: at most the pod's termination grace.
    """

    seconds: float = 0.0
    jitter_seconds: float = 0.0
    of: Literal["", "duration", "backoff", "grace"] = ""


class StageResult(_StageMapping, frozen=True):
    """What a stage makes of a pod.

    Attributes:
        phase: the new one.
        started: the node takes the pod.
        initialized: the init containers are done.
        containers: what they do from now on.
        reason: why they wait or ended.
        exit_code: with which they ended; by default the pod's own.
        restarted: they run once more.
        delete: the pod goes.
    """

    phase: Literal["", "Pending", "Running", "Succeeded", "Failed"] = ""
    started: bool = False
    initialized: bool = False
    containers: Literal["", "waiting", "running", "terminated"] = ""
    reason: str = ""
    exit_code: int | None = None
    restarted: bool = False
    delete: bool = False


class StageEvent(_StageMapping, frozen=True):
    """An event for each container; ``{container}`` and ``{image}`` are filled in."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


class PodStage(_StageMapping, frozen=True):
    """One step of a pod's life.

    Attributes:
        chance: with which probability it is in the pod's life at all.
    """

    name: str
    next: StageResult
    when: StageCondition = StageCondition()
    delay: StageDelay = StageDelay()
    chance: float = 1.0
    events: list[StageEvent] = []


class _PodStages(_StageMapping, frozen=True):
    stages: list[PodStage]


class PodFacts(msgspec.Struct, frozen=True):
    """What stages are chosen by; see :class:`StageCondition`."""

    deleting: bool
    forced: bool
    phase: str
    started: bool
    initialized: bool
    crashed: bool
    pull_failed: bool
    ends: bool
    succeeds: bool
    restarts: bool
    policy: str


def load_stages(*, chaos: bool = False) -> list[PodStage]:
    """The stages in the order in which they are tried."""
    return [stage for name in (["chaos"] if chaos else []) + ["pod"] for stage in _read(name)]


def facts(pod: Pod) -> PodFacts:
    """What stages are chosen by."""
    conditions = {each.type: each.status for each in pod.status.conditions}
    waiting = {
        str(status.state.get("waiting", {}).get("reason", ""))
        for status in pod.status.container_statuses
    }
    policy = pod.spec.restart_policy or "Always"
    succeeds = exit_code(pod) == 0
    return PodFacts(
        deleting=pod.metadata.deletion_timestamp is not None,
        forced=pod.metadata.deletion_grace_period_seconds == 0,
        phase=pod.status.phase or "Pending",
        started=pod.status.start_time is not None,
        initialized=conditions.get("Initialized") == "True",
        crashed="CrashLoopBackOff" in waiting,
        pull_failed="ImagePullBackOff" in waiting,
        ends=policy != "Always" or DURATION in pod.metadata.annotations,
        succeeds=succeeds,
        restarts=policy == "Always" or (policy == "OnFailure" and not succeeds),
        policy=policy,
    )


def choose(stages: Sequence[PodStage], pod: Pod, seed: int) -> PodStage | None:
    """The stage that comes next; None for a pod that stays as it is."""
    known = facts(pod)
    for stage in stages:
        if stage.when.fits(known) and (stage.chance >= 1 or _lot(stage, pod, seed) < stage.chance):
            return stage
    return None


def delay_seconds(stage: PodStage, pod: Pod, seed: int) -> float:
    """How long a stage takes to come, from when the pod became what it is."""
    delay = stage.delay
    drawn = rng.stream(seed, "delay", stage.name, pod.metadata.uid, restarts(pod)).random()
    seconds = delay.seconds + delay.jitter_seconds * drawn
    if delay.of == "duration":
        return run_seconds(pod, drawn)
    if delay.of == "backoff":
        return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(restarts(pod), 16), _MOST_BACKOFF_SECONDS)
    if delay.of == "grace":
        grace = pod.metadata.deletion_grace_period_seconds
        return min(seconds, _DEFAULT_GRACE_SECONDS if grace is None else grace)
    return seconds


def run_seconds(pod: Pod, drawn: float) -> float:
    """How long the pod's containers run: what its annotation says, or by lot.

    Args:
        pod: the pod.
        drawn: the lot, from 0 to 1.
    """
    try:
        seconds = Duration.parse(pod.metadata.annotations.get(DURATION, "")).nanoseconds / 1e9
    except ValueError:
        seconds = -1.0
    if seconds >= 0:
        return seconds
    return _LEAST_RUN_SECONDS + (_MOST_RUN_SECONDS - _LEAST_RUN_SECONDS) * drawn


def running_since(pod: Pod) -> float | None:
    """When the first of the pod's containers was started, as wall time; None if none runs."""
    texts = [
        str(each.state["running"].get("startedAt"))
        for each in pod.status.container_statuses
        if "running" in each.state
    ]
    return min((datetime.fromisoformat(text).timestamp() for text in texts), default=None)


def exit_code(pod: Pod) -> int:
    """With what the pod's containers end: 0 unless its annotation says otherwise."""
    text = pod.metadata.annotations.get(EXIT_CODE, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else 0


def restarts(pod: Pod) -> int:
    """How often the pod's containers were started again."""
    return max((each.restart_count for each in pod.status.container_statuses), default=0)


def _lot(stage: PodStage, pod: Pod, seed: int) -> float:
    return rng.stream(seed, "chance", stage.name, pod.metadata.uid, restarts(pod)).random()


def _read(name: str) -> list[PodStage]:
    entry = files("koord.simulator.nodes.pod_lifecycle.stages") / f"{name}.yaml"
    (document,) = parse_documents(entry.read_text("utf-8"), entry.name)
    return config.decode({_KIND: _PodStages}, document, entry.name).stages
