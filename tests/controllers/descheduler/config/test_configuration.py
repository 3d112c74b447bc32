# SPDX-License-Identifier: Apache-2.0
"""Both configuration files, and which plugins come of them."""

from __future__ import annotations

from typing import Any

import pytest

from koord.base.errors import KoordError
from koord.controllers.descheduler.config.load import decode, selects_node
from koord.controllers.descheduler.framework.limiter import EvictionLimits
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.framework.registry import PluginRegistry

VERSION = "descheduler/v1alpha2"


class MigrationController(DeschedulerPlugin):
    """Stands in for the default evictor of profiles."""

    name = "MigrationController"

    def filter(self, pod: Any) -> bool:
        return True

    def pre_eviction_filter(self, pod: Any) -> bool:
        return True

    async def evict(self, pod: Any, request: Any) -> bool:
        return True


@pytest.fixture
def registry() -> PluginRegistry:
    registry = PluginRegistry([])
    registry.register(MigrationController)
    return registry


def _names(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def _file(*profiles: dict[str, Any], **more: Any) -> dict[str, Any]:
    kind = "DeschedulerConfiguration"
    return {"apiVersion": VERSION, "kind": kind, "profiles": list(profiles), **more}


def test_what_holds_where_the_file_says_nothing(registry: PluginRegistry) -> None:
    found = decode(_file({}), "f", registry)
    (profile,) = found.profiles
    assert profile.name == "koord-descheduler"
    assert profile.plugins == {
        "deschedule": [], "balance": [], "filter": ["MigrationController"],
        "evict": ["MigrationController"],
    }  # fmt: skip
    assert (found.interval_seconds, found.dry_run) == (0, False)
    assert found.limits == EvictionLimits(None, None, None)
    election = found.leader_election
    assert (election.leader_elect, election.resource_name, election.resource_namespace) == (
        True, "koord-descheduler", "koordinator-system",
    )  # fmt: skip


def test_what_the_file_says(registry: PluginRegistry) -> None:
    election = {"leaderElect": True, "resourceName": "other", "leaseDuration": "0s"}
    found = decode(
        _file({}, deschedulingInterval="10s", dryRun=True, maxNoOfPodsToEvictTotal=0,
              maxNoOfPodsToEvictPerNode=3, leaderElection=election,
              nodeSelector={"matchLabels": {"pool": "a"}}),
        "f", registry,
    )  # fmt: skip
    assert (found.interval_seconds, found.dry_run) == (10, True)
    assert found.limits == EvictionLimits(per_node=3, total=0)
    assert found.leader_election.resource_name == "other"
    assert found.leader_election.resource_namespace == "koordinator-system"
    assert selects_node(found, {"pool": "a"})
    assert not selects_node(found, {"pool": "b"})


def test_plugins_are_disabled_replaced_and_added(registry: PluginRegistry) -> None:
    plugins = {
        "deschedule": {"enabled": _names("RemoveFailedPods", "PodLifeTime")},
        "filter": {"enabled": _names("DefaultEvictor", "MigrationController")},
        "evict": {"enabled": _names("DefaultEvictor"), "disabled": _names("*")},
    }
    config = [{"name": "PodLifeTime", "args": {"states": ["Failed"]}}]
    found = decode(_file({"plugins": plugins, "pluginConfig": config}), "f", registry)
    (profile,) = found.profiles
    assert profile.at("deschedule") == ["RemoveFailedPods", "PodLifeTime"]
    # A default that is enabled as well stays where it is.
    assert profile.at("filter") == ["MigrationController", "DefaultEvictor"]
    assert profile.at("evict") == ["DefaultEvictor"]
    assert profile.args["PodLifeTime"].states == ["Failed"]
    assert profile.args["RemoveFailedPods"].min_pod_lifetime_seconds == 3600


def _profile(**plugins: Any) -> dict[str, Any]:
    return {"plugins": plugins}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "f: got 'an empty file'"),
        ({"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerConfiguration"}, "apiVersion"),
        ({"apiVersion": VERSION, "kind": "Deployment"}, "kind: got 'Deployment'"),
        (_file(), "profiles"),
        (_file({"name": "a"}, {"name": "a"}), "profiles[1]: got 'a', expected every name once"),
        (_file({"name": "a"}, {}), "profiles[1].name"),
        (_file({}, dryrun=True), "'dryrun', expected a known field, such as dryRun"),
        (_file({}, maxNoOfPodsToEvictTotal=-1), "maxNoOfPodsToEvictTotal: got -1"),
        (_file({}, deschedulingInterval="-1s"), "deschedulingInterval"),
        (_file(_profile(evict={"disabled": _names("*")})), "exactly one evict plugin"),
        (_file(_profile(evict={"enabled": _names("DefaultEvictor")})), "exactly one evict plugin"),
        (_file(_profile(deschedule={"enabled": _names("PodLifetime")})), "such as PodLifeTime"),
        (_file(_profile(balance={"enabled": _names("RemoveFailedPods")})),
         "a plugin that takes part here; this one does at deschedule"),
        (_file(_profile(deschedule={"enabled": _names("RemoveFailedPods") * 2})), "once"),
        (_file({"pluginConfig": [{"name": "RemoveFailedPods"}] * 2}), "every plugin once"),
        (_file({"pluginConfig": [{"name": "RemoveFailedPods", "args": {"kind": "Args"}}]}),
         "profiles[0].pluginConfig[0].args.kind: got 'Args', expected RemoveFailedPodsArgs"),
        (_file({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
         "profiles[0].nodeSelector.matchExpressions[0].operator"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place(
    registry: PluginRegistry, document: Any, message: str
) -> None:
    with pytest.raises(KoordError) as caught:
        decode(document, "f", registry)
    assert str(caught.value).startswith("f: ")
    assert message in str(caught.value)


def _policy(**more: Any) -> dict[str, Any]:
    profile = {
        "name": "ProfileName",
        "pluginConfig": [{"name": "RemoveFailedPods", "args": {"minPodLifetimeSeconds": 60}}],
        "plugins": {"deschedule": {"enabled": ["RemoveFailedPods"]}},
    }
    kind = "DeschedulerPolicy"
    return {"apiVersion": VERSION, "kind": kind, "profiles": [profile], **more}


def test_a_policy_of_the_other_project(registry: PluginRegistry) -> None:
    found = decode(
        _policy(nodeSelector="pool in (a, b)", gracePeriodSeconds=5, maxNoOfPodsToEvictPerNode=2,
                evictionFailureEventNotification=True), "f", registry,
    )  # fmt: skip
    (profile,) = found.profiles
    assert profile.name == "ProfileName"
    assert profile.at("filter") == profile.at("evict") == ["DefaultEvictor"]
    assert profile.args["RemoveFailedPods"].min_pod_lifetime_seconds == 60
    assert (found.grace_period_seconds, found.events_of_failures) == (5, True)
    assert selects_node(found, {"pool": "b"})
    assert not selects_node(found, {})


def test_a_policy_may_evict_by_migration(registry: PluginRegistry) -> None:
    document = _policy()
    document["profiles"][0]["plugins"]["filter"] = {"enabled": ["MigrationController"]}
    (profile,) = decode(document, "f", registry).profiles
    assert profile.at("filter") == ["DefaultEvictor", "MigrationController"]
    assert profile.at("evict") == ["MigrationController"]


def test_metrics_of_others_are_refused(registry: PluginRegistry) -> None:
    document = _policy(metricsProviders=[{"source": "KubernetesMetrics"}])
    with pytest.raises(KoordError, match="metricsProviders"):
        decode(document, "f", registry)
