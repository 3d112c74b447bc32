# SPDX-License-Identifier: Apache-2.0
"""Hooks: outside code that watches quotas and has a say in them.

Rule: docs/reference/quota-scheduling.md#hooks. A hook is made by a factory that the configuration
names (``hookPlugins``: key, factoryKey, factoryArgs); packages offer factories as entry points of
the group ``koord.scheduler.quota_hooks``. Methods a hook does not need are left as they are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from koord.base.distributions import other_entry_points
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTrees
    from koord.kernels.quota import GroupSpec

ENTRY_POINTS = "koord.scheduler.quota_hooks"


class QuotaHook:
    """What a hook may do. Called in the order of the configuration; must not wait.

    Args:
        key: names the hook in messages.
        args: as written in the configuration.
    """

    def __init__(self, key: str, args: str) -> None:
        self.key = key
        self.args = args

    def quota_changed(self, group: str, old: GroupSpec | None, new: GroupSpec | None) -> None:
        """A group came (no old), changed, or went (no new)."""

    def pod_changed(self, group: str, pod: PodInfo, used: bool) -> None:
        """A pod began or ceased to count in a group's use; in what-ifs too, and back again."""

    def check_pod(self, group: str, pod: PodInfo) -> str:
        """Why a pod must not be admitted, beside what the quota says; ``""`` admits it."""
        return ""

    def adjust_status(self, quota: Any, patch: dict[str, Any] | None) -> dict[str, Any] | None:
        """Has the last word on what is written to a quota object; None writes nothing."""
        return patch


Factory = Callable[[str, str], QuotaHook]


class HookConf(Protocol):
    """One entry of ``hookPlugins``."""

    @property
    def key(self) -> str:
        """Names the hook."""

    @property
    def factory_key(self) -> str:
        """Names what makes it."""

    @property
    def factory_args(self) -> str:
        """What that is given."""


def installed() -> dict[str, Factory]:
    """The factories that installed packages offer."""
    return {point.name: point.load() for point in other_entry_points(ENTRY_POINTS)}


def made(confs: Iterable[HookConf], factories: Mapping[str, Factory]) -> list[QuotaHook]:
    """The hooks of a configuration.

    Raises:
        KoordError: an entry without a key, or factories that nobody offers; all are named.
    """
    confs = list(confs)
    wrong = [
        f"{conf.key or '(no key)'}: {conf.factory_key or '(no factoryKey)'}"
        for conf in confs
        if not conf.key or conf.factory_key not in factories
    ]
    if wrong:
        known = ", ".join(sorted(factories)) or "none is installed"
        expected = f"keys and factories that are installed ({known})"
        raise KoordError("ElasticQuotaArgs", "hookPlugins", "; ".join(wrong), expected)
    return [factories[conf.factory_key](conf.key, conf.factory_args) for conf in confs]


def attach(made: Sequence[QuotaHook], groups: QuotaTrees, ledger: QuotaLedger) -> None:
    """Has hooks told of what happens from now on."""
    if not made:
        return

    def spec_changed(group: str, old: GroupSpec | None, new: GroupSpec | None) -> None:
        for hook in made:
            hook.quota_changed(group, old, new)

    def use_changed(group: str, pod: PodInfo, used: bool) -> None:
        for hook in made:
            hook.pod_changed(group, pod, used)

    groups.on_spec, ledger.on_use = spec_changed, use_changed
