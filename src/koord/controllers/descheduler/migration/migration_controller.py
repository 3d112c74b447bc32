# SPDX-License-Identifier: Apache-2.0
"""MigrationController: filters pods, evicts by making a PodMigrationJob, and carries jobs out.

Rule: docs/reference/migration.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.descheduler.framework.points import PodEviction


class MigrationController(DeschedulerPlugin):
    """Filter and evict plugin, and the controller of PodMigrationJobs.

    Without a cluster, over snapshots alone, it filters and makes no job.
    """

    name = "MigrationController"
    args_type = MigrationControllerArgs
    args: MigrationControllerArgs

    def __init__(self, args: MigrationControllerArgs, handle: DeschedulerHandle) -> None:
        super().__init__(args, handle)

    async def run(self) -> None:
        """Works until cancelled. Called once, when this process leads and all views are there."""

    def filter(self, pod: Pod) -> bool:
        """Whether the pod may be a candidate."""
        return True

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Whether the pod may go now."""
        return True

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Makes a job; whether it was made."""
        return False
