# SPDX-License-Identifier: Apache-2.0
"""How long plugins take, measured at every tenth attempt.

Rule: docs/reference/scheduling.md#metrics.

A sampled attempt is made by a twin of the profile's decider whose plugins are timed; the other nine
pay nothing. Filter and Score are timed a call, which answers for many nodes.

A sampled attempt calls every plugin, about all nodes where no answers are kept: it costs from three
times what others do to thirty times, the more the larger the cluster is. So there are never more
than a hundred a second, and together they have one percent of the time: enough to know how long
plugins take, and too few to be felt where thousands of pods are decided.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.decision.plugin_times import PluginTimes
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.controllers.scheduler.metrics import SchedulerMetrics

EVERY = 10
LEAST_SECONDS = 0.01
"""Between the beginnings of two sampled attempts."""
SHARE = 100
"""Of the time sampled attempts have one part in so many."""
_POINTS = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "filter_node": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "score_node": "Score",
    "normalize": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "post_bind": "PostBind",
}
_ASYNC_POINTS = {"pre_bind": "PreBind", "bind": "Bind"}


class TimedPlugin:
    """A plugin whose extension points are timed; all else is the plugin's.

    Args:
        plugin: which.
        observe: is told plugin, extension point, status and seconds.
        times: is told what the attempt under way spends.
    """

    def __init__(
        self, plugin: Any, observe: Callable[[str, str, str, float], None], times: PluginTimes
    ) -> None:
        self._plugin = plugin
        for method, point in _POINTS.items():
            if hasattr(plugin, method):
                setattr(self, method, _timed(plugin, method, point, observe, times))
        for method, point in _ASYNC_POINTS.items():
            if hasattr(plugin, method):
                setattr(self, method, _timed_async(plugin, method, point, observe))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)


class TimingSampler:
    """Chooses who makes an attempt: a profile's decider, and every tenth time its timed twin.

    Args:
        deciders: by profile.
        metrics: where times go.
        times: where those of the attempt under way go.
    """

    def __init__(
        self, deciders: Mapping[str, Decider], metrics: SchedulerMetrics, times: PluginTimes
    ) -> None:
        self._twins = {
            name: _TimedDecider(decider, name, metrics, times).decider
            for name, decider in deciders.items()
        }
        self._count = 0
        self._next_seconds = -math.inf

    def timed(self, profile: str) -> Decider:
        """The timed twin, for a pod whose attempts are expected to be slow."""
        return self._twins[profile]

    def choose(self, profile: str, decider: Decider, now_seconds: float) -> Decider:
        """Who makes the next attempt of a pod of the profile; monotonic seconds say when."""
        self._count += 1
        if self._count < EVERY or now_seconds < self._next_seconds:
            return decider
        self._count, self._next_seconds = 0, now_seconds + LEAST_SECONDS
        return self._twins[profile]

    def took(self, began_seconds: float, seconds: float) -> None:
        """A timed attempt has ended; monotonic seconds say when it began."""
        self._next_seconds = max(self._next_seconds, began_seconds + SHARE * seconds)


class _TimedDecider:
    """A decider with timed plugins that shares all kept answers with the one it stands in for."""

    def __init__(
        self, decider: Decider, profile: str, metrics: SchedulerMetrics, times: PluginTimes
    ) -> None:
        timed: dict[int, TimedPlugin] = {}

        def observe(plugin: str, point: str, status: str, seconds: float) -> None:
            metrics.plugin_took(plugin, point, status, seconds)
            metrics.point_took(point, status, profile, seconds)

        def of(plugin: Any) -> TimedPlugin:
            if id(plugin) not in timed:
                timed[id(plugin)] = TimedPlugin(plugin, observe, times)
            return timed[id(plugin)]

        def at(plugins: Sequence[Any]) -> list[Any]:
            return [of(plugin) for plugin in plugins]

        own = decider.plugins
        plugins = ProfilePlugins(
            own.pre_enqueue, at(own.pre_filter), at(own.filter), at(own.post_filter),
            at(own.pre_score), [(of(plugin), weight) for plugin, weight in own.score],
            at(own.reserve), at(own.permit), at(own.pre_bind), at(own.bind), at(own.post_bind),
        )  # fmt: skip
        self.decider = Decider(
            decider.table, decider.accounts, plugins, decider.nominations, together=False
        )
        self.decider.evaluator.share(decider.evaluator)


def _timed(
    plugin: Any,
    method: str,
    point: str,
    observe: Callable[[str, str, str, float], None],
    times: PluginTimes,
) -> Callable[..., Any]:
    function, name = getattr(plugin, method), plugin.name

    def call(*args: Any) -> Any:
        began, status = time.perf_counter(), "Error"
        try:
            with times.measured(name, point):
                answer = function(*args)
            status = status_of(answer)
        finally:
            observe(name, point, status, time.perf_counter() - began)
        return answer

    return call


def _timed_async(
    plugin: Any, method: str, point: str, observe: Callable[[str, str, str, float], None]
) -> Callable[..., Any]:
    function, name = getattr(plugin, method), plugin.name

    async def call(*args: Any) -> Any:
        began, status = time.perf_counter(), "Error"
        try:
            answer = await function(*args)
            status = "Skip" if answer is False else "Success"
        finally:
            observe(name, point, status, time.perf_counter() - began)
        return answer

    return call


def status_of(answer: object) -> str:
    """Kubernetes' name of what a plugin answered."""
    if isinstance(answer, Wait):
        return "Wait"
    if not isinstance(answer, Rejection):
        return "Success"
    if answer.error:
        return "Error"
    return "UnschedulableAndUnresolvable" if answer.unresolvable else "Unschedulable"
