# SPDX-License-Identifier: Apache-2.0
"""Why a pod or a node was or was not relieved in the last rounds, and by which rule.

What happened comes from the history of rounds. What keeps a pod is asked of the filters themselves,
which look at the cluster as the last round saw it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.migration import PENDING
from koord.api.protocol import keys
from koord.api.wirestruct import WireStruct
from koord.base.errors import Code, KoordError
from koord.controllers.descheduler.config.load import selects_node
from koord.controllers.descheduler.snapshot import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.views import View
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.framework.outcomes import PodOutcome
    from koord.controllers.descheduler.framework.profile import StrategyProfile
    from koord.controllers.descheduler.informer_snapshot import InformerSnapshot
    from koord.controllers.descheduler.round_history import RoundHistory

MOST_OUTCOMES = 50
"""Of one pod or node that are told."""


class PastOutcome(WireStruct):
    """What became of a pod in one round.

    Attributes:
        round: its number.
        at: wall time of its start in seconds since the Unix epoch.
        dry_run: whether evictions were only counted.
        target: the node where a plan had it go; empty without a plan.
    """

    round: int = 0
    at: float = 0.0
    dry_run: bool = False
    pod: str = ""
    node: str = ""
    plugin: str = ""
    reason: str = ""
    result: str = ""
    message: str = ""
    target: str = ""


class ProfileVerdict(WireStruct):
    """What a profile says of a pod or a node now.

    Attributes:
        profile: its name.
        strategies: its deschedule and balance plugins, in order.
        refusal: which rule keeps it from being looked at or evicted; empty for none.
    """

    profile: str = ""
    strategies: list[str] = []
    refusal: str = ""


class PodMigration(WireStruct):
    """A PodMigrationJob of a pod.

    Attributes:
        job: its name.
        pod, new_pod: the pod that was to move, and the one that came in its stead.
        node: where it goes; empty while that is open.
        phase, reason, message: how far it is, and why.
        trigger: the plugin or the program that asked for it.
    """

    job: str = ""
    pod: str = ""
    new_pod: str = ""
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    trigger: str = ""


class MoveExplanation(WireStruct):
    """The answer about one pod or node.

    Attributes:
        name: ``namespace/name`` of a pod, name of a node.
        node: of a pod; empty where it has none or is gone.
        exists: whether it is there now.
        since: from when on rounds are remembered, in seconds since the Unix epoch; None before one.
        rounds: how many are.
        interval_seconds: between two rounds; 0 for one round and no more.
        counts: outcomes by result.
        outcomes: the newest first.
        omitted: further ones.
        errors: of the last round, where it failed.
        idle: why the last round had nothing to do; empty where it had.
        migrations: jobs that moved the pod, or brought it; of a node none.
        verdicts: of the profiles, now.
    """

    name: str = ""
    node: str = ""
    exists: bool = True
    since: float | None = None
    rounds: int = 0
    interval_seconds: float = 0.0
    counts: dict[str, int] = {}
    outcomes: list[PastOutcome] = []
    omitted: int = 0
    errors: list[str] = []
    migrations: list[PodMigration] = []
    verdicts: list[ProfileVerdict] = []
    idle: str = ""


class MoveExplainer:
    """Answers.

    Args:
        configuration: which nodes are looked at.
        profiles: that judge.
        snapshots: of the cluster now.
        history: of rounds.
        jobs: PodMigrationJobs; None where no plugin carries any out.
    """

    def __init__(
        self,
        configuration: DeschedulerConfiguration,
        profiles: Sequence[StrategyProfile],
        snapshots: InformerSnapshot,
        history: RoundHistory,
        jobs: View[PodMigrationJob] | None = None,
    ) -> None:
        self._jobs = jobs
        self._configuration = configuration
        self._profiles = profiles
        self._snapshots = snapshots
        self._history = history

    def pod(self, namespace: str, name: str) -> MoveExplanation:
        """What became of a pod.

        Raises:
            KoordError: there is no such pod, and none is remembered.
        """
        pod = self._snapshots.pod(namespace, name)
        answer = self._past(
            f"{namespace}/{name}",
            lambda outcome: (outcome.namespace, outcome.name) == (namespace, name),
        )
        answer.migrations = list(self._migrations(namespace, name))
        if pod is None and not answer.outcomes and not answer.migrations:
            expected = "a pod that is there, or was moved"
            raise KoordError("POD", "", f"{namespace}/{name}", expected, Code.NOT_FOUND)
        answer.exists = pod is not None
        if pod is not None:
            answer.node = pod.spec.node_name
            answer.verdicts = [self._of_pod(pod, profile) for profile in self._profiles]
        return answer

    def node(self, name: str) -> MoveExplanation:
        """What became of the pods of a node.

        Raises:
            KoordError: there is no such node, and none is remembered.
        """
        node = self._snapshots.node(name)
        answer = self._past(name, lambda outcome: name in (outcome.node, outcome.target))
        if node is None and not answer.outcomes:
            raise KoordError("NODE", "", name, "the name of a node", Code.NOT_FOUND)
        answer.exists = node is not None
        if node is not None:
            answer.verdicts = [self._of_node(node, profile) for profile in self._profiles]
        return answer

    def _migrations(self, namespace: str, name: str) -> Iterator[PodMigration]:
        """Those of a pod, the newest first."""
        jobs = [job for _, job in self._jobs.items()] if self._jobs is not None else []
        jobs = [job for job in jobs if _concerns(job, namespace, name)]
        jobs.sort(key=lambda job: (job.metadata.creation_timestamp, job.metadata.name))
        for job in reversed(jobs):
            status, new = job.status, job.status.pod_ref
            yield PodMigration(
                job.metadata.name, _pod_of(job), new.name if new is not None else "",
                status.node_name, status.phase or PENDING, status.reason, status.message,
                job.metadata.annotations.get(keys.EVICT_TRIGGER, ""),
            )  # fmt: skip

    def _past(self, name: str, concerns: Callable[[PodOutcome], bool]) -> MoveExplanation:
        found = list(self._outcomes(concerns))
        last = next(self._history.newest_first(), None)
        return MoveExplanation(
            name,
            since=self._history.since,
            rounds=self._history.rounds,
            interval_seconds=self._configuration.interval_seconds,
            counts=dict(sorted(Counter(outcome.result for outcome in found).items())),
            outcomes=found[:MOST_OUTCOMES],
            omitted=max(0, len(found) - MOST_OUTCOMES),
            errors=last.errors if last is not None else [],
            idle=last.idle if last is not None else "",
        )

    def _outcomes(self, concerns: Callable[[PodOutcome], bool]) -> Iterator[PastOutcome]:
        for past in self._history.newest_first():
            for outcome in past.outcomes:
                if concerns(outcome):
                    yield PastOutcome(
                        past.number, past.started, past.dry_run,
                        f"{outcome.namespace}/{outcome.name}", outcome.node, outcome.plugin,
                        outcome.reason, outcome.result, outcome.message, outcome.target,
                    )  # fmt: skip

    def _of_pod(self, pod: Pod, profile: StrategyProfile) -> ProfileVerdict:
        verdict = _verdict(profile)
        node = self._snapshots.node(pod.spec.node_name) if pod.spec.node_name else None
        if not pod.spec.node_name:
            verdict.refusal = "it has no node"
        elif node is not None and (why := self._node_refusal(node, profile)):
            verdict.refusal = f"node {pod.spec.node_name}: {why}"
        else:
            verdict.refusal = profile.handle.evictor.refusal(pod)
        return verdict

    def _of_node(self, node: Node, profile: StrategyProfile) -> ProfileVerdict:
        verdict = _verdict(profile)
        verdict.refusal = self._node_refusal(node, profile)
        return verdict

    def _node_refusal(self, node: Node, profile: StrategyProfile) -> str:
        if not is_ready(node):
            return "it is not ready"
        labels, selector = node.metadata.labels, profile.configuration.node_selector
        if not selects_node(self._configuration, labels):
            return "nodeSelector does not match it"
        if selector is not None and not selectors.matches(selector, labels):
            return "nodeSelector of the profile does not match it"
        return ""


def _concerns(job: PodMigrationJob, namespace: str, name: str) -> bool:
    refs = (job.spec.pod_ref, job.status.pod_ref)
    return any(ref is not None and (ref.namespace, ref.name) == (namespace, name) for ref in refs)


def _pod_of(job: PodMigrationJob) -> str:
    ref = job.spec.pod_ref
    return f"{ref.namespace}/{ref.name}" if ref is not None else ""


def _verdict(profile: StrategyProfile) -> ProfileVerdict:
    configuration = profile.configuration
    names = [*configuration.at("deschedule"), *configuration.at("balance")]
    return ProfileVerdict(configuration.name, names)
