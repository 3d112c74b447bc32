# SPDX-License-Identifier: Apache-2.0
"""Takes pods off that run for longer than they said they would."""

from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.scheduler.config.plugin_args import PluginArgs


class RemoveLongRunnersArgs(PluginArgs, frozen=True):
    """``annotation``: where pods say how many minutes they take; ``graceMinutes``: on top."""

    annotation: str = "example.com/expected-minutes"
    grace_minutes: int = 10

    def check(self, at):
        """No time below 0."""
        at.inside("graceMinutes").at_least(self.grace_minutes, 0)


class RemoveLongRunners(DeschedulerPlugin):
    """A Deschedule plugin: judges pods one by one."""

    name = "RemoveLongRunners"
    args_type = RemoveLongRunnersArgs

    async def deschedule(self, nodes):
        """Evicts through the handle, which asks filters and limits and tells what became of it."""
        evictor = self.handle.evictor
        for node in nodes:
            for pod in self.handle.snapshot.pods_on(node.metadata.name):
                over = self._minutes_over(pod)
                if over > 0 and evictor.accepts(pod):
                    await evictor.evict(pod, f"runs {over} minutes longer than it said")

    def _minutes_over(self, pod):
        text = pod.metadata.annotations.get(self.args.annotation, "")
        if not text.isdecimal() or pod.status.start_time is None:
            return 0
        minutes = int((self.handle.now() - pod.status.start_time.timestamp()) // 60)
        return minutes - int(text) - self.args.grace_minutes
