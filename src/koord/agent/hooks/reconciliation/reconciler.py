# SPDX-License-Identifier: Apache-2.0
"""Stand-alone delivery: asks hooks about what changed and claims their answers of the executor.

Rule: docs/reference/hooks.md#reconciler. Asked are only pods that changed, and hooks whose rule
did.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from koord.agent.executor.claim import Claim, Executor
from koord.agent.hooks.hook import Hook, NodeWide
from koord.agent.hooks.pod_contexts import container_context, pod_context, sandbox_context
from koord.agent.hooks.reconciliation.response_claims import claims_of
from koord.agent.hooks.reconciliation.sandbox import sandbox_directory
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.base import faults
from koord.base.errors import KoordError
from koord.base.supervision import Supervisor
from koord.kernels.cgroup_path import HostPath, KubeQos, host_application_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.agent.host.machine import Machine
    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.slo_strategies import HostApplication

KATA = "kata"
INTERVAL_SECONDS = 10.0
"""How often directories of classes and of host applications are looked after."""

LATEST_TICKS = 8
"""A sandbox that is not found is looked for after 1, 2, 4 and then every so many intervals: beside
CRI-O, whose sandboxes look like containers, none is ever found."""

_ALL = (
    SnapshotPart.NODE
    | SnapshotPart.PODS
    | SnapshotPart.SLO
    | SnapshotPart.TOPOLOGY
    | SnapshotPart.METRIC_SPEC
)
_SANDBOXES = "sandboxes"
_NODE, _CLASSES, _APPLICATION, _RULE = "node", "kubeqos", "host/", "rule"


@runtime_checkable
class RecheckingExecutor(Protocol):
    """An executor that can be told to look at the files of some owners again."""

    def recheck(self, *owners: str) -> None:
        """At the next settle."""
        ...


class _SandboxSearch(NamedTuple):
    """Ticks until a sandbox is looked for again, and between this search and the one before."""

    left: int = 1
    waited: int = 1


class Reconciler:
    """One agent's.

    Args:
        hooks: in the order in which they are asked.
        executor: who writes; a scope is a pod's UID, ``kubeqos``, ``host/NAME`` or ``node``.
        machine: layout and cgroup tree.
        sandbox: finds a pod's sandbox; by listing its directory if None.
        supervisor: told of failures; each hook is a part of its own, ``hook NAME``, and what it
            fails of is about a scope.
    """

    def __init__(
        self,
        hooks: Iterable[Hook],
        executor: Executor,
        machine: Machine,
        sandbox: Callable[[PodState], str] | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._hooks, self._executor, self._machine = list(hooks), executor, machine
        self._sandbox = sandbox or (lambda pod: sandbox_directory(machine.hierarchy, pod))
        self._snapshot = Snapshot()
        self._pods: dict[str, PodState] = {}
        self._sandboxes: dict[str, str] = {}
        self._searches: dict[str, _SandboxSearch] = {}
        self._applications: set[str] = set()
        self._supervisor = supervisor or Supervisor("hooks")
        self._parts = {hook.name: self._supervisor.part(part_name(hook)) for hook in self._hooks}
        # Whether the next change is to be taken for one of everything: before the first is through.
        self._first = True

    def changed(self, snapshot: Snapshot, parts: SnapshotPart = _ALL) -> None:
        """Learns from what changed, asks about it and settles.

        Args:
            snapshot: the newest view.
            parts: what of it may be new; the first call takes everything for new.
        """
        whole, self._first = self._first, True
        parts = _ALL if whole else parts
        self._snapshot = snapshot
        relearned = [hook for hook in self._hooks if hook.follows & parts and self._learn(hook)]
        self._follow_pods(self._hooks if whole else relearned)
        if parts & SnapshotPart.SLO or relearned:
            self._follow_directories()
        for hook in self._hooks:
            if hook.follows & parts and isinstance(hook, NodeWide):
                self._state(hook, _NODE, partial(hook.node, snapshot))
        self._first = False
        self._executor.settle()

    def tick(self) -> None:
        """Every 10 seconds: directories of classes, host applications, late sandboxes, edits.

        What a hook failed of is asked again.
        """
        if self._first:
            self.changed(self._snapshot)
        for hook in self._hooks:
            self._ask_again(hook)
        self._follow_directories()
        for uid in [uid for uid in self._searches if self._search_is_due(uid)]:
            if self._find_sandbox(pod := self._pods[uid]):
                self._ask(pod, self._hooks)
        if isinstance(self._executor, RecheckingExecutor):
            self._executor.recheck(*(hook.name for hook in self._hooks))
        self._executor.settle()

    def restate(self, uid: str) -> list[str]:
        """Writes what hooks want of a pod now, whatever failed before: its cgroup has been made.

        Args:
            uid: the pod's; one that is not known is left to :meth:`changed`.

        Returns:
            What hooks failed of, a line each.
        """
        if uid not in self._pods:
            return []
        for hook in self._hooks:
            self._executor.withdraw(hook.name, uid)
        self._ask(self._pods[uid], self._hooks)
        self._executor.settle()
        found = sorted(self.problems().items())
        return [f"{hook}: {why}" for (hook, scope), why in found if scope == uid]

    def stop(self) -> None:
        """Takes back what the hooks hold."""
        for hook in self._hooks:
            self._executor.withdraw(hook.name)
        self._executor.settle()

    def problems(self) -> dict[tuple[str, str], str]:
        """What went wrong last, by hook and scope, one line each."""
        return {
            (name, scope): why
            for name, part in self._parts.items()
            for scope, why in part.errors.items()
        }

    # -- pods ----------------------------------------------------------------------------------

    def _follow_pods(self, relearned: list[Hook]) -> None:
        present = {pod.uid: pod for pod in self._snapshot.pods.value if pod.active}
        for uid in self._pods.keys() - present.keys():
            self._gone(uid)
        before, self._pods = self._pods, present
        for uid, pod in present.items():
            old = before.get(uid)
            if old is not pod and old != pod:
                self._searches.pop(uid, None)
                self._find_sandbox(pod)
                self._ask(pod, self._hooks)
            elif relearned:
                self._ask(pod, relearned)

    def _gone(self, uid: str) -> None:
        self._sandboxes.pop(uid, None)
        self._searches.pop(uid, None)
        self._supervisor.forget(_SANDBOXES, uid)
        for hook in self._hooks:
            self._executor.withdraw(hook.name, uid)
            self._supervisor.forget(part_name(hook), uid)

    def _find_sandbox(self, pod: PodState) -> str:
        """Its directory; empty where it cannot be told, and then it is looked for again."""
        found = ""
        if not is_kata(pod):
            # What one pod's directory fails of is no other pod's business.
            with self._supervisor.round(_SANDBOXES, pod.uid):
                found = self._sandbox(pod)
        self._sandboxes[pod.uid] = found
        if found or is_kata(pod):
            self._searches.pop(pod.uid, None)
        else:
            self._searches.setdefault(pod.uid, _SandboxSearch())
        return found

    def _search_is_due(self, uid: str) -> bool:
        """Counts a tick; after a search the wait for the next is twice as long."""
        left, waited = self._searches[uid]
        if left > 1:
            self._searches[uid] = _SandboxSearch(left - 1, waited)
            return False
        longer = min(2 * waited, LATEST_TICKS)
        self._searches[uid] = _SandboxSearch(longer, longer)
        return True

    def _ask(self, pod: PodState, hooks: list[Hook]) -> None:
        for hook in hooks:
            self._state(hook, pod.uid, partial(self._wanted, hook, pod))

    def _wanted(self, hook: Hook, pod: PodState) -> list[Claim]:
        context = pod_context(pod)
        claims: list[Claim] = []
        if answer := hook.pod(context):
            claims += claims_of(answer, pod.directory, container=False)
        if is_kata(pod):
            return claims
        inner = [container_context(context, c) for c in pod.containers if c.spec and c.directory]
        if sandbox := self._sandboxes.get(pod.uid):
            inner.insert(0, sandbox_context(context, sandbox))
        for container in inner:
            if answer := hook.container(container):
                claims += claims_of(answer, container.directory, container=True)
        return claims

    # -- the node ------------------------------------------------------------------------------

    def _follow_directories(self) -> None:
        for hook in self._hooks:
            self._state(hook, _CLASSES, partial(self._of_classes, hook))
        slo = self._snapshot.slo.value
        applications = {app.name: app for app in slo.host_applications} if slo else {}
        for name in self._applications - applications.keys():
            for hook in self._hooks:
                self._executor.withdraw(hook.name, _APPLICATION + name)
                self._supervisor.forget(part_name(hook), _APPLICATION + name)
        self._applications = set(applications)
        for name, application in applications.items():
            for hook in self._hooks:
                wanted = partial(self._of_application, hook, application)
                self._state(hook, _APPLICATION + name, wanted)

    def _of_classes(self, hook: Hook) -> list[Claim]:
        claims: list[Claim] = []
        for qos in (KubeQos.GUARANTEED, KubeQos.BURSTABLE, KubeQos.BEST_EFFORT):
            if answer := hook.kube_qos(qos):
                claims += claims_of(answer, self._machine.layout.qos(qos), container=False)
        return claims

    def _of_application(self, hook: Hook, application: HostApplication) -> list[Claim]:
        answer = hook.host_application(application)
        if answer is None:
            return []
        path = application.cgroup_path
        where = HostPath(path.base, path.parent_dir, path.relative_path) if path else None
        driver = self._machine.layout.driver
        try:
            directory = host_application_directory(
                driver, application.name, application.qos, where
            ).strip("/")
        except ValueError as error:
            name = f"host application {application.name}"
            raise KoordError.wrap(name, "cgroupPath", error) from None
        return claims_of(answer, directory, container=False)

    # -- hooks ---------------------------------------------------------------------------------

    def _learn(self, hook: Hook) -> bool:
        """Whether the hook is to be asked again."""
        with self._supervisor.round(part_name(hook), _RULE):
            faults.point("hooks.learn")
            return hook.learn(self._snapshot)
        return True

    def _state(self, hook: Hook, scope: str, wanted: Callable[[], list[Claim]]) -> None:
        """What a hook cannot answer leaves what it claimed before."""
        with self._supervisor.round(part_name(hook), scope):
            self._executor.state(hook.name, scope, wanted())

    def _ask_again(self, hook: Hook) -> None:
        """Asks a hook what it failed of; classes and host applications are asked for anyway."""
        scopes = list(self._parts[hook.name].errors)
        if _RULE in scopes and self._learn(hook):
            scopes = [*self._pods, _NODE]
        for scope in scopes:
            if scope in self._pods:
                self._ask(self._pods[scope], [hook])
            elif scope == _NODE and isinstance(hook, NodeWide):
                self._state(hook, _NODE, partial(hook.node, self._snapshot))


def part_name(hook: Hook) -> str:
    """The supervisor's name of a hook."""
    return f"hook {hook.name}"


def is_kata(pod: PodState) -> bool:
    """Whether its containers have a kernel of their own, whose cgroups are not here."""
    return pod.pod.spec.runtime_class_name == KATA
