# SPDX-License-Identifier: Apache-2.0
"""Where namespaces take turns, and where the order is kube-scheduler's.

Rule: docs/reference/scheduling.md#turns-of-namespaces.
"""

from __future__ import annotations

from typing import Any

import pytest

from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import SchedulerConfiguration, decode, shipped
from koord.controllers.scheduler.config.plugin_args import API_VERSION
from koord.controllers.scheduler.registry import Registry

NAMES = ("koord-scheduler", "default-scheduler")


def from_file(args: dict[str, Any] | None = None) -> SchedulerConfiguration:
    """One profile of the default plugins, as a file would have it."""
    given = [{"name": "PrioritySort", "args": args}] if args is not None else []
    document = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "one", "pluginConfig": given}],
    }
    return decode(document, "file", Registry(outside=[]))


def is_fair(configuration: SchedulerConfiguration) -> bool:
    from koord.controllers.scheduler.scheduler import Scheduler

    world = ClusterState(LocalViews(), VirtualClock(), None, lambda *_: None)
    return Scheduler(world, configuration.profiles, Registry(outside=[])).queue.fair


def test_koords_own_configuration_is_fair_and_a_file_says_so_itself() -> None:
    own = shipped(Registry(outside=[]), *NAMES)
    assert is_fair(own)
    assert not is_fair(own.scoped("", "", "none"))
    assert not is_fair(from_file())
    assert not is_fair(from_file({"fairness": "none"}))
    assert is_fair(from_file({"fairness": "namespace"}))
    assert is_fair(from_file().scoped("", "", "namespace"))


def test_what_cannot_be_meant_is_one_line() -> None:
    with pytest.raises(KoordError) as told:
        from_file({"fairness": "tenant"})
    assert str(told.value) == (
        "file: profiles[0].pluginConfig[0].args.fairness: "
        "got 'tenant', expected one of none, namespace"
    )
