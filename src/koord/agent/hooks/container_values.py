# SPDX-License-Identifier: Apache-2.0
"""What a container that is being made, or whose resources change, is given.

Rule: docs/reference/hooks.md#delivery-by-the-runtime.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from koord.base import log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.agent.hooks.hook import DeviceFile

_MOST_PATHS = 256
_LOG = log.get("agent.hooks")


@dataclass(slots=True)
class ContainerValues:
    """Values for one container; None and empty mean "nothing to say".

    Attributes:
        cpu_shares: weight, 2 to 262144.
        cfs_quota_us: of a period of 100 ms; -1 for none.
        cpus: a CPU list.
        memory_limit_bytes: -1 for none.
        oom_score_adj: -1000 to 1000.
        resctrl_group: a group that is there.
        environment: variables to set.
        mounts: host's path and container's.
        devices: files to make, each of a device that it may use.
        failed: what hooks failed of, a line each; the values are those of the others.
    """

    cpu_shares: int | None = None
    cfs_quota_us: int | None = None
    cpus: str | None = None
    memory_limit_bytes: int | None = None
    oom_score_adj: int | None = None
    resctrl_group: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    mounts: list[tuple[str, str]] = field(default_factory=list)
    devices: list[DeviceFile] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class MissingOnHost:
    """Counts what was left out of containers for want of it on the host; tells each path once."""

    def __init__(self) -> None:
        self._count, self._last = 0, ""
        self._paths: set[str] = set()

    def note(self, hook: str, paths: Iterable[str]) -> None:
        """Paths of the host for want of which a hook's answer, or a part of it, was left out."""
        for path in paths:
            self._count += 1
            self._last = path
            if path not in self._paths and len(self._paths) < _MOST_PATHS:
                self._paths.add(path)
                _LOG.warning("not on the host", extra=log.fields(hook=hook, path=path))

    def status(self) -> dict[str, Any]:
        """As ``koord node status`` shows it."""
        return {"missingOnHost": self._count, "lastMissingOnHost": self._last}
