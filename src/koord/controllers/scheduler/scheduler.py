# SPDX-License-Identifier: Apache-2.0
"""Puts a scheduler together: plugins of profiles, queue, feed and loop over one world.

With views that are fed by hand and no client this is a scheduler without a cluster::

    views = LocalViews()
    scheduler = Scheduler(World(views, clock), profiles)
    views.view(Node).put(node)
    views.view(Pod).put(pod)
    scheduler.loop.schedule(1.0)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.cache.event_handlers import EventHandlers
from koord.controllers.scheduler.config.args_koord import BY_NAMESPACE, PrioritySortArgs
from koord.controllers.scheduler.cycles.scheduling_loop import LoopDependencies, SchedulingLoop
from koord.controllers.scheduler.cycles.surrogate_pods import SurrogatePods
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.decision.nominations import QueueNominations
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.job_planning.planner import JobPlanner
from koord.controllers.scheduler.metrics import SchedulerMetrics
from koord.controllers.scheduler.plugins.kubernetes.priority_sort import PrioritySort
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.options import QueueOptions, QueueProfile, priority_sort
from koord.controllers.scheduler.queue.pod_size import is_oversized
from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.controllers.scheduler.cluster_state import ClusterState
    from koord.controllers.scheduler.config import Profile
    from koord.controllers.scheduler.decision.decider import Decision
    from koord.controllers.scheduler.queue.options import SortKey
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod
    from koord.controllers.scheduler.registry import Registry


class Scheduler:
    """A scheduler over a world.

    Plugins that two profiles configure alike are one object, so that their accounts are kept once.

    Args:
        world: the node table, views, clock and client.
        profiles: by what plugins pods of which scheduler name are decided.
        registry: where plugin classes are found.
        options: times of the queue.
        metrics: counts and times.
        observers: see :class:`koord.controllers.scheduler.cycles.scheduling_loop.SchedulingLoop`.
    """

    def __init__(
        self,
        world: ClusterState,
        profiles: Sequence[Profile],
        registry: Registry,
        options: QueueOptions | None = None,
        metrics: SchedulerMetrics | None = None,
        observers: tuple[Callable[[Decision, str], None], ...] = (),
    ) -> None:
        self.world = world
        self.metrics = metrics or SchedulerMetrics()
        world.registry = self.metrics.registry
        world.contradictions.measure(world.registry)
        self._made: dict[tuple[str, bytes], Any] = {}
        sets = {p.scheduler_name: self._instances(p, registry) for p in profiles}
        self.profiles = {
            p.scheduler_name: self._points(p, sets[p.scheduler_name]) for p in profiles
        }
        self.plugins = list(self._made.values())
        for plugin in self.plugins:
            if hasattr(plugin, "pod_added"):
                world.accounts.listen(plugin)
        nominations = QueueNominations(world.table)
        sort_key = _sort_key(profiles[0], sets[profiles[0].scheduler_name])
        self.queue = self._queue(sets, sort_key, _queue_options(profiles[0], options))
        nominations.nominator = self.queue.nominator
        self.deciders = self._deciders(nominations)
        self.feed = EventHandlers(
            world.table,
            world.orphans,
            world.shapes,
            world.accounts,
            self.queue,
            self.profiles,
            [plugin for plugin in self.plugins if hasattr(plugin, "restore")],
            self._woken,
            world.contradictions,
        )
        parts = LoopDependencies(
            world.table, world.accounts, self.queue, self.feed, self.deciders, world.clock,
            self.metrics, world.event, SurrogatePods(self.plugins), world.supervisor,
        )  # fmt: skip
        self.planners = self._planners(sets)
        self.loop = SchedulingLoop(parts, world.client, self.planners, observers)
        self._connect(sets, parts.stand_ins)

    def _queue(
        self,
        sets: Mapping[str, Mapping[str, Any]],
        sort_key: SortKey,
        options: QueueOptions | None,
    ) -> SchedulingQueue:
        queue_profiles = {
            name: _queue_profile(self.profiles[name], sets[name]) for name in self.profiles
        }
        return SchedulingQueue(
            self.world.clock, queue_profiles, sort_key, options, oversized=is_oversized
        )

    def _connect(self, sets: Mapping[str, Mapping[str, Any]], surrogates: SurrogatePods) -> None:
        """Lets the parts know each other, and has the views tell them of objects."""
        world = self.world
        world.queue, world.binder, world.woken = self.queue, self.loop.binder, self._woken
        world.refuse = self.loop.refuse
        for members in sets.values():
            for plugin in members.values():
                if hasattr(plugin, "join"):
                    plugin.join(list(members.values()))
        for plugin in self.plugins:
            if hasattr(plugin, "measure"):
                plugin.measure(self.metrics.registry)
        self.feed.attach(world.view(Node), world.view(Pod))
        world.view(Pod).on_change(
            deleted=lambda pod, _: self.loop.failures.forget(pod.metadata.uid)
        )
        for plugin in surrogates.plugins:
            plugin.attach(self.feed)

    def _woken(self) -> None:
        self.loop.woken()

    def _instances(self, profile: Profile, registry: Registry) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in profile.plugin_names():
            args = profile.args.get(name)
            key = (name, repr(args).encode())
            if key not in self._made:
                self._made[key] = registry.make(name, args, self.world)
            found[name] = self._made[key]
        return found

    def _points(self, profile: Profile, instances: Mapping[str, Any]) -> ProfilePlugins:
        def at(point: str) -> list[Any]:
            return [instances[name] for name in profile.at(point)]

        weighted = [(instances[name], profile.weight(name)) for name in profile.at("score")]
        return ProfilePlugins(
            at("preEnqueue"), at("preFilter"), at("filter"), at("postFilter"), at("preScore"),
            weighted, at("reserve"), at("permit"), at("preBind"), at("bind"), at("postBind"),
        )  # fmt: skip

    def _planners(self, sets: Mapping[str, Mapping[str, Any]]) -> dict[str, JobPlanner]:
        """Who plans jobs, for profiles with a plugin that knows them."""
        made: dict[str, JobPlanner] = {}
        for name, plugins in sets.items():
            jobs = next((p for p in plugins.values() if hasattr(p, "job_of")), None)
            quota = next((p for p in plugins.values() if hasattr(p, "admit")), None)
            if jobs is not None:
                tell = self.world.gate("GangPendingPodsConditionPatch")
                made[name] = JobPlanner(jobs, self.queue, quota, report_others=tell)
        return made

    def _deciders(self, nominations: QueueNominations) -> dict[str, Decider]:
        """One decider for profiles of the same plugins, so that they share kept answers."""
        made: dict[str, Decider] = {}
        for name, plugins in self.profiles.items():
            twin = next((other for other in made if self.profiles[other] == plugins), None)
            made[name] = (
                made[twin]
                if twin is not None
                else Decider(self.world.table, self.world.accounts, plugins, nominations)
            )
        return made


def _queue_profile(plugins: ProfilePlugins, instances: Mapping[str, Any]) -> QueueProfile:
    gates = [(plugin.name, plugin.pre_enqueue) for plugin in plugins.pre_enqueue]
    events = {name: plugin.events() for name, plugin in instances.items()}
    return QueueProfile(gates, {**events, ev.OWN: ev.own_events()})


def _queue_options(profile: Profile, options: QueueOptions | None) -> QueueOptions:
    """The options, and whether namespaces take turns, which is PrioritySort's to say."""
    sort = profile.at("queueSort")[:1]
    args = profile.args.get(PrioritySort.name) if list(sort) == [PrioritySort.name] else None
    by_namespace = isinstance(args, PrioritySortArgs) and args.fairness == BY_NAMESPACE
    return replace(options or QueueOptions(), fair=by_namespace)


def _sort_key(profile: Profile, instances: Mapping[str, Any]) -> SortKey:
    """The order of the queue, which all profiles share, by the queue-sort plugin of the first."""
    names = profile.at("queueSort")
    if not names or names[0] == PrioritySort.name:
        # The queue knows that order; it need not ask.
        return priority_sort
    plugin = instances[names[0]]

    def key(pod: QueuedPod) -> tuple[Any, ...]:
        found: tuple[Any, ...] = plugin.sort_key(pod.info, pod.timestamp)
        return found

    return key
