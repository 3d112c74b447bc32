# SPDX-License-Identifier: Apache-2.0
"""The GPU shared resource templates of the configured ConfigMap, as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.cluster import ConfigMap
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.deviceshare.names import DEVICES_EVENT
from koord.controllers.scheduler.plugins.deviceshare.objects.device import EVERYTHING_CHANGED
from koord.controllers.scheduler.plugins.deviceshare.objects.gpu_templates import (
    GPUTemplates,
    read_templates,
)
from koord.controllers.scheduler.queue.events import Action

if TYPE_CHECKING:
    from koord.controllers.scheduler.framework.handle import Handle

_LOG = log.get("scheduler.deviceshare")


class TemplateCache:
    """Follows the ConfigMap; one that cannot be read leaves the templates as they were.

    Args:
        handle: for the ConfigMap, and to wake pods that wait.
        config_map: its namespace and name.

    Attributes:
        templates: none before the ConfigMap was seen.
        generation: counts the changes of the templates.
    """

    def __init__(self, handle: Handle, config_map: tuple[str, str]) -> None:
        self.templates = GPUTemplates({})
        self.generation = 0
        self._handle = handle
        self._config_map = config_map
        view = handle.view_of(ConfigMap, *config_map)
        view.on_change(self._changed, lambda _, new: self._changed(new))

    def _changed(self, config_map: ConfigMap) -> None:
        meta = config_map.metadata
        if (meta.namespace, meta.name) != self._config_map:
            return
        try:
            self.templates = read_templates(config_map.data, config_map.title)
        except KoordError as error:
            _LOG.warning("templates are left as they were", extra=log.fields(reason=str(error)))
            return
        self.generation += 1
        self._handle.wake(DEVICES_EVENT, Action.UPDATE, None, EVERYTHING_CHANGED)
