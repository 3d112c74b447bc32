# SPDX-License-Identifier: Apache-2.0
"""slo-controller-config as the last good configuration, one for all controllers.

Rule: docs/reference/nodeslo.md#what-becomes-of-a-mistake. A section that is wrong stays what it
was; one event on the ConfigMap names the field, as it does for a node strategy that does not count,
for shares above 100 and for names that nobody reads. A ConfigMap that is deleted changes nothing
until the next start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.sloconfig import sections
from koord.api.sloconfig.config import SLOConfig, load
from koord.api.sloconfig.problems import problems
from koord.base import log
from koord.base.supervision import Supervisor
from koord.controllers.manager.sloconfig.config_events import ConfigEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sized

    from koord.api.kinds.cluster import ConfigMap
    from koord.controllers.cluster.views import View
    from koord.controllers.manager.event_writer import EventWriter

_LOG = log.get("manager.config")


class ConfigCache:
    """What is in force, whatever the ConfigMap says now.

    Args:
        view: ConfigMaps, or this one alone.
        tell: writes events.
        namespace: of the ConfigMap.
        name: of the ConfigMap.
        supervisor: told of subscribers that fail.
        extenders: that read sections of their own; asked how many there are.

    Attributes:
        config: all sections, each as it was when it was last good, its default if it never was;
            None before :meth:`start`.
        data: the ConfigMap's data, for the sections of third parties; empty without a ConfigMap.
        error_status: whether the co-location section is not what the ConfigMap says, or there is
            no ConfigMap: metrics' policies then stay as they are.
        title: what to call the ConfigMap.
    """

    def __init__(
        self,
        view: View[ConfigMap],
        write_event: EventWriter,
        namespace: str = sections.CONFIG_MAP_NAMESPACE,
        name: str = sections.CONFIG_MAP_NAME,
        supervisor: Supervisor | None = None,
        *,
        extenders: Sized = (),
    ) -> None:
        self._supervisor = supervisor or Supervisor("manager")
        self._follows = False
        self.config: SLOConfig | None = None
        self.data: Mapping[str, str] = {}
        self.error_status = False
        self._view = view
        self._events = ConfigEvents(write_event)
        self._extenders = extenders
        self._key = f"{namespace}/{name}"
        self.title = f"ConfigMap {self._key}"
        self._good: set[str] = set()
        self._missing: frozenset[str] = frozenset(sections.SECTIONS)
        self._subscribers: list[Callable[[frozenset[str]], None]] = []

    @property
    def available(self) -> bool:
        """Whether there is a co-location section to go by."""
        return self.has(sections.COLOCATION)

    @property
    def missing(self) -> frozenset[str]:
        """The keys of the sections that have never been good: see :meth:`has`."""
        return self._missing

    def has(self, key: str) -> bool:
        """Whether a section has been good once, its absence included.

        Until then its defaults stand in :attr:`config`, which nobody has asked for.

        Args:
            key: the section's key in the ConfigMap.
        """
        return key in self._good

    def subscribe(self, follower: Callable[[frozenset[str]], None]) -> None:
        """Has a function told the keys of the sections that changed, those of third parties too.

        It must not wait. A section also counts as changed when it becomes available, and when
        :attr:`error_status` ends.
        """
        self._subscribers.append(follower)

    def start(self) -> None:
        """Reads the ConfigMap, or its absence, and follows it; the view must be complete."""
        if not self._follows:
            self._follows = True
            self._view.on_change(self._added, self._updated)
        if self.config is None:
            self.sync(None)

    def _added(self, config_map: ConfigMap) -> None:
        if self._is_ours(config_map):
            self.sync(config_map)

    def _updated(self, old: ConfigMap, new: ConfigMap) -> None:
        if self._is_ours(new) and old.data != new.data:
            self.sync(new)

    def _is_ours(self, config_map: ConfigMap) -> bool:
        meta = config_map.metadata
        return f"{meta.namespace}/{meta.name}" == self._key

    def sync(self, config_map: ConfigMap | None) -> frozenset[str]:
        """Takes over what a ConfigMap says, and tells subscribers.

        Args:
            config_map: None where there is none: defaults.

        Returns:
            The keys of the sections that changed.
        """
        before, had, was_wrong = self.config, self.data, self.error_status
        self.data = config_map.data if config_map is not None else {}
        data = self.data if config_map is not None else None
        now = self.config = load(data, before, f"ConfigMap {self._key}")
        self.error_status = config_map is None or sections.COLOCATION in now.errors
        good = now.sections.keys() - now.errors.keys()
        changed = {
            key
            for key, section in now.sections.items()
            if before is not None and section != before.sections[key]
        }
        changed |= good - self._good
        changed |= {key for key in had.keys() ^ self.data.keys() if key not in now.sections}
        changed |= {
            key
            for key in had.keys() & self.data.keys()
            if key not in now.sections and had[key] != self.data[key]
        }
        if was_wrong and not self.error_status:
            changed.add(sections.COLOCATION)
        self._good |= good
        self._missing = frozenset(now.sections) - self._good
        if config_map is not None:
            found = problems(self.data, third_parties=len(self._extenders) > 0)
            self._events.say(config_map, f"ConfigMap {self._key}", found, self.data)
        self._announce(frozenset(changed))
        return frozenset(changed)

    def _announce(self, changed: frozenset[str]) -> None:
        if not changed:
            return
        _LOG.info("configuration changed", extra=log.fields(sections=",".join(sorted(changed))))
        for told in self._subscribers:
            with self._supervisor.round("followers of the configuration"):
                told(changed)
