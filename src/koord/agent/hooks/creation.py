# SPDX-License-Identifier: Apache-2.0
"""What all hooks together want of one container before it runs: one value a file.

Composed as the executor composes claims, within what the pod's cgroups say already: the executor
states the same values once the container is there.
Rule: docs/reference/hooks.md#delivery-by-the-runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.composition.value_resolver import OwnedClaim, ValueResolver
from koord.agent.executor.target import (
    CPUS,
    OOM_SCORE_ADJ,
    QUOTA,
    RESCTRL_GROUP,
    SHARES,
    Target,
    normalised,
    target_of,
)
from koord.agent.hooks.container_values import ContainerValues, MissingOnHost
from koord.agent.hooks.pod_contexts import container_context, pod_context
from koord.agent.hooks.reconciliation.reconciler import is_kata, part_name
from koord.agent.hooks.reconciliation.response_claims import claims_of
from koord.agent.states.pod_state import ContainerKind, ContainerState
from koord.base.errors import KoordError
from koord.base.supervision import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koord.agent.executor.claim import Executor
    from koord.agent.executor.target import Value
    from koord.agent.hooks.hook import ContainerContext, Hook, HookResponse, HookStage
    from koord.agent.host.machine import Machine
    from koord.agent.states.pod_state import PodState
    from koord.base.supervision import Supervisor

MEMORY_LIMIT = "memory.limit_in_bytes"
_SCOPE = "container"
# Its directory is not there yet, or is another's to name; what counts are those above.
_NEW = "container"


class CreationHooks:
    """The hooks of an agent as a container runtime asks for them.

    Args:
        hooks: those of the reconciler, in the order in which they are asked.
        executor: tells what files say now.
        machine: its cgroup tree, and the size of a page.
        supervisor: told of failures, under the parts and scopes of the reconciler: what a hook
            fails of is left out, and tried again there.
        host_has: whether a path of the host is there, which a mount names.

    Attributes:
        missing: what was left out because the host lacks it.
    """

    def __init__(
        self,
        hooks: Iterable[Hook],
        executor: Executor,
        machine: Machine,
        supervisor: Supervisor,
        host_has: Callable[[str], bool] = lambda path: True,
    ) -> None:
        self._hooks, self._executor = list(hooks), executor
        self._machine, self._supervisor, self._host_has = machine, supervisor, host_has
        self.missing = MissingOnHost()

    @property
    def stages(self) -> frozenset[HookStage]:
        """Those of which any hook is asked."""
        return frozenset(stage for hook in self._hooks for stage in hook.stages)

    def values(
        self,
        pod: PodState,
        name: str,
        container_id: str,
        stage: HookStage,
        environment: Mapping[str, str] | None = None,
    ) -> ContainerValues:
        """What the hooks of a stage want of a container.

        Args:
            pod: whose container it is, as the reconciler sees it.
            name: the container's.
            container_id: its hash; its directory need not be there.
            stage: creation, or an update of resources.
            environment: what it has already.
        """
        found = ContainerValues()
        spec = {c.name: c for c in (*pod.pod.spec.containers, *pod.pod.spec.init_containers)}
        if is_kata(pod) or name not in spec:
            return found
        state = ContainerState(
            name, container_id, f"{pod.directory}/{_NEW}", ContainerKind.REGULAR,
            running=False, spec=spec[name],
        )  # fmt: skip
        context = container_context(pod_context(pod, reconciling=False), state, environment)
        claims: dict[Target, list[OwnedClaim]] = {}
        for hook in self._hooks:
            if stage in hook.stages:
                self._ask(hook, context, claims, found)
        self._compose(context.directory, claims, found)
        return found

    def _ask(
        self,
        hook: Hook,
        context: ContainerContext,
        claims: dict[Target, list[OwnedClaim]],
        values: ContainerValues,
    ) -> None:
        with self._supervisor.round(part_name(hook), context.pod.uid) as asked:
            answer = hook.container(context)
            if answer is None:
                return
            for claim in claims_of(answer, context.directory, container=True):
                amount = normalised(claim, self._machine.page_bytes)
                owned = OwnedClaim(hook.name, _SCOPE, claim._replace(value=amount))
                claims.setdefault(target_of(claim), []).append(owned)
            self._add(hook.name, answer, values)
        if asked.error is not None:
            values.failed.append(f"{hook.name}: {cause_of(asked.error)}")

    def _add(self, name: str, answer: HookResponse, values: ContainerValues) -> None:
        """What has no file: a runtime alone can carry it out, and refuses what is not there."""
        there = [mount for mount in answer.mounts if self._host_has(mount[0])]
        lacking = [source for source, place in answer.mounts if (source, place) not in there]
        self.missing.note(name, [*answer.missing, *lacking])
        values.environment |= answer.environment
        values.mounts += there
        values.devices += answer.devices
        if answer.resctrl_group and self._has_group(answer.resctrl_group):
            values.resctrl_group = answer.resctrl_group

    def _has_group(self, name: str) -> bool:
        try:
            return self._executor.current(RESCTRL_GROUP, name) == "1"
        except KoordError:
            return False  # This node has no resctrl.

    def _compose(
        self, directory: str, claims: Mapping[Target, list[OwnedClaim]], values: ContainerValues
    ) -> None:
        version = self._machine.hierarchy.version
        resolver = ValueResolver(
            version, lambda target: claims.get(target, []), lambda target: None, self._held
        )

        def value(resource: str) -> Value | None:
            made = resolver.final(Target(resource, directory))
            return None if made is None else made.value

        shares, quota, memory = value(SHARES), value(QUOTA), value(MEMORY_LIMIT)
        score, cpus = value(OOM_SCORE_ADJ), value(CPUS)
        values.cpu_shares = None if shares is None else int(shares)
        values.cfs_quota_us = None if quota is None else int(quota)
        values.memory_limit_bytes = None if memory is None else int(memory)
        values.oom_score_adj = None if score is None else int(score)
        values.cpus = None if cpus is None else str(cpus)

    def _held(self, target: Target) -> Value | None:
        return self._executor.current(target.resource, target.directory)
