# SPDX-License-Identifier: Apache-2.0
"""The ElasticQuota plugin: ties trees, accounts, admission and controllers to the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from koord.api.kinds import quota as kinds
from koord.api.kinds.cluster import Namespace
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol.quotas import pod_quota_name
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.cluster.quota_objects import group_name, integer_amounts
from koord.controllers.cluster.quota_reach import NamespaceReach
from koord.controllers.scheduler.config.args_gangs_and_quota import NAMESPACE_SCOPE
from koord.controllers.scheduler.framework.plugin import Plugin, PostFilterResult
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.elasticquota import hooks
from koord.controllers.scheduler.plugins.elasticquota.admission import RuntimeQuotaAdmission
from koord.controllers.scheduler.plugins.elasticquota.allocation.preemption import QuotaVictimPolicy
from koord.controllers.scheduler.plugins.elasticquota.explain import debug, shortfall
from koord.controllers.scheduler.plugins.elasticquota.explain.metrics import QuotaMetrics
from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import NAME, reading
from koord.controllers.scheduler.plugins.elasticquota.objects.quota_labels import IgnoredQuotaLabels
from koord.controllers.scheduler.plugins.elasticquota.state.cluster_total import ClusterTotal
from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import (
    ChargedPod,
    QuotaLedger,
    TerminatingPolicy,
)
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
    QuotaTreeOptions,
    QuotaTrees,
)
from koord.controllers.scheduler.plugins.elasticquota.state.recount import recount
from koord.controllers.scheduler.plugins.elasticquota.writers.revoke_controller import (
    OveruseMonitor,
    RevokeController,
)
from koord.controllers.scheduler.plugins.elasticquota.writers.status_controller import (
    QuotaStatusController,
)
from koord.controllers.scheduler.preemption.evaluator import PreemptionEvaluator
from koord.controllers.scheduler.queue import events as ev
from koord.kernels.quota import DEFAULT, SYSTEM, Options

if TYPE_CHECKING:
    from koord.api.kinds.meta import ResourceList
    from koord.controllers.cluster.pods import PodBatch, PodInfo, PodShape
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.config.args_gangs_and_quota import ElasticQuotaArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.framework.handle import Handle

Quota = kinds.ElasticQuota | kinds.GroupQuota

_LOG = log.get("scheduler")
_CANONICAL = "elasticquotas.v1alpha1.scheduling.sigs.k8s.io"
_GUIDE = "elasticquotas.v1alpha1.quota.koordinator.sh"
_READ = (
    keys.QUOTA_SHARED_WEIGHT,
    keys.QUOTA_NAMESPACES,
    keys.QUOTA_TOTAL_RESOURCE,
    keys.QUOTA_UNSCHEDULABLE_RESOURCE,
)
_UPKEEP_SECONDS = 1.0
_METRICS_SECONDS = 10.0
_HELPFUL = (
    ev.ClusterEvent(ev.ASSIGNED_POD, ev.Action.DELETE),
    ev.ClusterEvent(ev.POD, ev.Action.UPDATE_POD_LABEL | ev.Action.UPDATE_POD_SCALE_DOWN),
    ev.ClusterEvent(
        ev.NODE,
        ev.Action.ADD | ev.Action.UPDATE_NODE_ALLOCATABLE | ev.Action.UPDATE_NODE_ANNOTATION,
    ),
    ev.ClusterEvent(_CANONICAL, ev.Action.ALL),
    ev.ClusterEvent(_GUIDE, ev.Action.ALL),
)


class ElasticQuota(Plugin):
    """Admits pods within their quota; see ``docs/reference/quota-scheduling.md``.

    Attributes:
        groups, ledger, admission: trees, accounts and the check, for planners and explanations.
        preemption: makes room within a quota.
        metrics: the series.
    """

    name = NAME
    account: ClassVar[str] = "quotas"
    restores_from: ClassVar[tuple[str, ...]] = ()
    listens_by_shape: ClassVar[bool] = False
    depends = Aspect(0)
    reads = PodField.NONE

    def __init__(self, args: ElasticQuotaArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        by_namespace = args.quota_scope == NAMESPACE_SCOPE
        reach = NamespaceReach(handle.view(Namespace)) if by_namespace else None
        self.groups = QuotaTrees(replace(settings(args, handle), reaches=reach))
        self.ledger = QuotaLedger(
            self.groups,
            overhead=not handle.gate("ElasticQuotaIgnorePodOverhead"),
            terminating=_terminating(handle),
            now=handle.clock.wall_seconds,
        )
        if reach is not None:
            reach.changed = self._reach_changed
        self.ledger.is_decided = self._is_decided
        made = hooks.made(args.hook_plugins, hooks.installed() if args.hook_plugins else {})
        self.admission = RuntimeQuotaAdmission(self.groups, self.ledger, made)
        hooks.attach(made, self.groups, self.ledger)
        policy = QuotaVictimPolicy(
            self.groups,
            self.ledger,
            handle.accounts,
            spare_default=args.disable_default_quota_preemption,
            reclaim=args.enable_reclaim,
        )
        self.preemption = PreemptionEvaluator(NAME, handle, policy)
        self.metrics = QuotaMetrics.of(handle.registry)
        self._totals = ClusterTotal()
        self._canonical = handle.view(kinds.ElasticQuota)
        self._guides = handle.view(kinds.GroupQuota)
        self._views: tuple[tuple[type[Quota], View[Any]], ...] = (
            (kinds.ElasticQuota, self._canonical), (kinds.GroupQuota, self._guides)
        )  # fmt: skip
        self._status = self._status_controller(made)
        self._came = asyncio.Event()
        self._canonical.on_served(lambda served: self._came.set())
        self._checked_version = -1
        self._absent = IgnoredQuotaLabels()
        self._follow()

    # What the scheduler asks.

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """At Reserve it has nothing to choose for anybody."""
        return ("reserve",)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Refuses a pod that is over its quota, in whatever resource it asks for."""
        refusal = self.admission.check(cycle.pod)
        if refusal is None:
            return None
        return Rejection(NAME, (refusal.reason,), unresolvable=refusal.unresolvable)

    def admit(self, pods: Sequence[PodInfo]) -> Rejection | None:
        """Whether a job's pods may all run; changes nothing.

        Returns:
            The refusal of the first pod that may not run once those before it do.
        """
        refused = self.admission.check_all(pods)
        if refused is None:
            return None
        return Rejection(NAME, (refused[1].reason,), unresolvable=refused[1].unresolvable)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Takes less important pods of the same quota, if that makes room within it."""
        early = diagnosis.early
        if early is not None and early.plugin != NAME:
            self._gave_up(cycle.pod)
            return PostFilterResult()
        result = self.preemption.post_filter(cycle, diagnosis)
        if result.success:
            self.admission.promises.make(cycle.pod)
            return result
        if result.clear:
            self._gave_up(cycle.pod)
        # Of a want of nodes those speak that preempt for it.
        message = result.message if early is not None else ""
        return PostFilterResult(message=message, clear=result.clear)

    def _gave_up(self, pod: PodInfo) -> None:
        """What was freed for a pod is for others, too."""
        if self.admission.promises.end(pod.uid):
            self._request_fell()

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Nothing to choose: :meth:`pod_added` counts the pod."""
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Nothing was chosen."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod holds a node: its quota is used."""
        self.ledger.place_pod(pod)

    def pods_added(self, arrivals: Sequence[PodBatch]) -> None:
        """Many pods hold nodes."""
        for each in arrivals:
            self.ledger.place_pods(each.pods)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse."""
        self.ledger.withdraw(pod)

    def orphan_added(self, pod: PodInfo) -> None:
        """Its node went while it was bound, or about to be: its quota is used all the same."""
        self.ledger.place_pod(pod)

    def orphan_removed(self, pod: PodInfo) -> None:
        """It is bound nowhere."""
        self.ledger.withdraw(pod)

    def recount(self) -> Iterator[str | None]:
        """What the pods of quotas ask for and use, by quota."""
        return recount(self.groups, self.ledger, self.handle)

    def restore(self, pod: PodInfo) -> None:
        """A pod's quota follows from its labels and the quotas there are."""

    def events(self) -> Sequence[ev.HintedEvent]:
        """Whatever lowers use or requests, or raises a limit; a pod wakes once it is admitted."""
        return [ev.HintedEvent(event, self._admits, per_shape=True) for event in _HELPFUL]

    debug_paths: ClassVar[Sequence[str]] = ("quotas", "quotas/:name", "pods/:namespace/:name")

    def debug(self, path: Sequence[str]) -> object:
        """``quotas``: all groups; ``quotas/NAME``: one, with its pods; ``pods/...``: why not."""
        if path and path[0] == "quotas":
            if len(path) == 1:
                return debug.quotas(self.groups, self.ledger)
            place = self.groups.place("/".join(path[1:]))
            if place is not None:
                return debug.quota(self.groups, self.ledger, place, pods=True)
            raise KeyError(f"cannot find quota {'/'.join(path[1:])}")
        if len(path) == 3 and path[0] == "pods":
            entry = self.ledger.find("/".join(path[1:]))
            if entry is not None:
                return self.why(entry.pod)
            raise KeyError(f"no quota counts a pod {'/'.join(path[1:])}")
        known = "quotas, quotas/NAME and pods/NAMESPACE/NAME"
        raise KeyError(f"{'/'.join(path)}: no such path; there are {known}")

    def figures_of(self, group: str, *, pods: bool = False) -> dict[str, Any] | None:
        """For explanations: a group's limits and figures; None for one not in force."""
        place = self.groups.place(group)
        if place is None:
            return None
        return debug.quota(self.groups, self.ledger, place, pods=pods)

    def why(self, pod: PodInfo) -> dict[str, Any]:
        """For explanations: whose quota a pod uses, and where it is over it."""
        return debug.why(self.groups, self.ledger, self.admission, pod)

    def raises(self, pod: PodInfo) -> list[str]:
        """For explanations: which limit would have to be higher for a pod."""
        return shortfall.raises(self.groups, self.ledger, self.admission, pod)

    # What runs while this process leads.

    def controllers(self) -> Sequence[tuple[str, Callable[[], Awaitable[object]]]]:
        """Upkeep, metrics; with a cluster statuses, and revocation where it is on."""
        found: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            ("quota upkeep", self._keep_up),
            ("quota metrics", self._measure),
        ]
        if self._status is not None:
            found.append(("built-in quotas", self._create_builtin))
            found.append(("quota status", self._status.run))
        watched = self.args.monitor_all_quotas and self.args.enable_runtime_quota
        if self.handle.client is not None and watched:
            found.append(("quota revocation", self.revoke_controller().run))
        return found

    def revoke_controller(self) -> RevokeController:
        """Evicts pods of quotas that use too much for too long."""
        delay, interval = self.args.delay_evict_time, self.args.revoke_pod_interval
        monitor = OveruseMonitor(self.groups, self.ledger, delay.nanoseconds / 1e9)
        return RevokeController(monitor, self._evict, interval.nanoseconds / 1e9, self.handle.clock)

    async def _evict(self, pod: PodInfo) -> None:
        client, meta = self.handle.client, pod.pod.metadata
        assert client is not None, "there is no revocation without a cluster"
        await client.evict(meta.name, meta.namespace, uid=meta.uid)

    async def _keep_up(self) -> None:
        while True:
            self.upkeep()
            await asyncio.sleep(_UPKEEP_SECONDS)

    def upkeep(self) -> None:
        """Lets ended pods go, and judges quotas: one may be mended by another that comes."""
        self.ledger.expire()
        if self._checked_version == self.groups.revision:
            return
        self._checked_version = self.groups.revision
        for kind, view in self._views:
            for _, item in list(view.items()):
                wrong = self.problem(item) or self._absent.of(item)
                self.handle.invalid.judge(kind, item, wrong)

    def problem(self, item: Quota) -> KoordError | None:
        """Why a quota is not in force as it is written; None if it is."""
        group, namespace = group_name(item), item.metadata.namespace
        return self.groups.problem(group, namespace) or self.groups.detached(group, namespace)

    async def _measure(self) -> None:
        while True:
            self.metrics.update(self.groups)
            await asyncio.sleep(_METRICS_SECONDS)

    async def _create_builtin(self) -> None:
        """Now, and whenever the kind comes to the server."""
        assert self._status is not None, "there are no statuses without a cluster"
        limits = {
            SYSTEM: self.args.system_quota_group_max,
            DEFAULT: self.args.default_quota_group_max,
        }
        while True:
            if self._canonical.served:
                await self._status.create_builtin(self.args.quota_group_namespace, limits)
            self._came.clear()
            await self._came.wait()

    def _status_controller(self, made: Sequence[hooks.QuotaHook]) -> QuotaStatusController | None:
        if self.handle.client is None:
            return None

        def adjust(quota: Any, patch: dict[str, Any] | None) -> dict[str, Any] | None:
            for hook in made:
                patch = hook.adjust_status(quota, patch)
            return patch

        return QuotaStatusController(
            self.groups, self.ledger, self._canonical, self._guides, self.handle.client, adjust
        )

    # What the API tells.

    def _follow(self) -> None:
        """Quotas first, then nodes, then pods: each finds what it counts in."""
        for (kind, view), resource in zip(self._views, (_CANONICAL, _GUIDE), strict=True):
            follower = _QuotaFollower(self, resource)
            view.on_change(follower.put, follower.updated, follower.removed)
            view.on_unreadable(partial(self.handle.invalid.unreadable, kind))
        self.handle.view(Node).on_change(
            self._node, lambda _, node: self._node(node), self._node_gone
        )
        self.handle.view(Pod).on_change(
            self._pod, self._pod_updated, self._pod_gone, self._pods_listed
        )

    def quota_put(self, item: Quota) -> None:
        """There is such a quota object."""
        error = self.groups.put(item)
        if self._absent.put(item):
            self._checked_version = -1
        if error is not None:
            _LOG.warning("a quota is not in force", extra=log.fields(error=str(error)))
        self.status_changed()

    def quota_removed(self, item: Quota) -> None:
        """There no longer is."""
        self.groups.remove(item)
        self._absent.removed(item)
        self.handle.invalid.gone(type(item), item)
        self.status_changed()

    def _reach_changed(self, namespace: str) -> None:
        self.groups.reach_changed(namespace)
        self.ledger.reach_changed(namespace)
        self._request_fell()

    def status_changed(self) -> None:
        """What is written in quota objects must be compared again."""
        if self._status is not None:
            self._status.changes += 1

    def _node(self, node: Node) -> None:
        if self._totals.put(node):
            self.groups.set_total(self._totals.total())

    def _node_gone(self, node: Node, unknown: bool) -> None:
        if self._totals.remove(node.metadata.name):
            self.groups.set_total(self._totals.total())

    def _pod(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.admission.promises.end(pod.metadata.uid)
        self.ledger.list_pod(self.handle.shapes.info(pod))

    def _pods_listed(self, pods: list[Pod]) -> list[Pod]:
        if self.admission.promises:
            return pods
        self.ledger.list_pods(self.handle.shapes.infos(pods))
        return []

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        before = self.ledger.get(pod.metadata.uid)
        read = before.reading if before is not None else None
        self._pod(pod)
        after = self.ledger.get(pod.metadata.uid)
        if after is not None and (self._is_decided(after.pod.uid) or self._noted(after.pod.uid)):
            self._judge_name(after)
        if before is not None and (after is None or after.reading is not read):
            self._request_fell()

    def _is_decided(self, uid: str) -> bool:
        known = self.handle.accounts.get(uid)
        return known is not None and known.decided

    def _noted(self, uid: str) -> bool:
        return bool(self.handle.contradictions.of(uid, keys.QUOTA_NAME))

    def _judge_name(self, entry: ChargedPod) -> None:
        """Tells of a pod that names another quota than the one that it was placed in."""
        error, pod = None, entry.pod.pod
        if reading(entry.pod.shape).names != entry.reading.names:
            field, counts = f"labels[{keys.QUOTA_NAME}]", entry.reading.label or "none"
            expected = f"the quota that it was placed in, which is what counts: {counts}"
            error = KoordError(pod.title, field, pod_quota_name(pod), expected)
        self.handle.contradictions.note(pod, keys.QUOTA_NAME, error)

    def _pod_gone(self, pod: Pod, unknown: bool) -> None:
        entry = self.ledger.get(pod.metadata.uid)
        self.ledger.unlist(pod.metadata.uid)
        self.admission.promises.end(pod.metadata.uid)
        # One that holds a node goes from the accounts next, and wakes whom that helps.
        if entry is not None and not entry.placed:
            self._request_fell()

    def _request_fell(self) -> None:
        """What one pod no longer asks for may raise the share of others, in any quota."""
        self.handle.wake(_CANONICAL, ev.Action.UPDATE_OTHER, None, None)

    def _admits(self, pod: PodInfo, old: object, new: object) -> bool:
        return self.admission.check(pod) is None


class _QuotaFollower:
    """Handlers of one kind of quota, which wake pods under that kind's name."""

    def __init__(self, plugin: ElasticQuota, resource: str) -> None:
        self._plugin = plugin
        self._resource = resource

    def put(self, item: Quota) -> None:
        self._plugin.quota_put(item)
        self._wake(ev.Action.ADD, None, item)

    def updated(self, old: Quota, item: Quota) -> None:
        # Most updates are the statuses that this process wrote.
        if _written(old) == _written(item):
            self._plugin.status_changed()
            return
        self._plugin.quota_put(item)
        self._wake(ev.Action.UPDATE_OTHER, old, item)

    def removed(self, item: Quota, unknown: bool) -> None:
        self._plugin.quota_removed(item)
        self._wake(ev.Action.DELETE, item, None)

    def _wake(self, action: ev.Action, old: object, new: object) -> None:
        self._plugin.handle.wake(self._resource, action, old, new)


def _written(item: Quota) -> tuple[object, ...]:
    """All of an object that makes a difference to the trees."""
    meta = item.metadata
    notes = [meta.annotations.get(key) for key in _READ]
    return meta.uid, meta.creation_timestamp, meta.labels, notes, item.spec


def settings(args: ElasticQuotaArgs, handle: Handle) -> QuotaTreeOptions:
    """What arguments and gates say about the trees.

    Raises:
        KoordError: a limit of a built-in group is negative.
    """
    return QuotaTreeOptions(
        options=Options(
            runtime_quota=args.enable_runtime_quota,
            check_parents=args.enable_check_parent_quota,
            guarantee_usage=handle.gate("ElasticQuotaGuaranteeUsage"),
        ),
        default_max=_limit("defaultQuotaGroupMax", args.default_quota_group_max),
        system_max=_limit("systemQuotaGroupMax", args.system_quota_group_max),
        scale_min=args.enable_min_quota_scale,
        several_trees=handle.gate("MultiQuotaTree"),
        default_group=not handle.gate("DisableDefaultQuota"),
    )


def _limit(field: str, amounts: ResourceList) -> dict[str, int]:
    return integer_amounts("ElasticQuotaArgs", field, amounts)


def _terminating(handle: Handle) -> TerminatingPolicy:
    if handle.gate("ElasticQuotaImmediateIgnoreTerminatingPod"):
        return TerminatingPolicy.AT_ONCE
    if handle.gate("ElasticQuotaIgnoreTerminatingPod"):
        return TerminatingPolicy.AFTER_GRACE
    return TerminatingPolicy.AT_END
