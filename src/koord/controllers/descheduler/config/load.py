# SPDX-License-Identifier: Apache-2.0
"""Reads either configuration file, resolves its profiles, and says what of it has no effect.

Rules: docs/reference/descheduling.md#configuration,
docs/reference/descheduling.md#deschedulerpolicy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api import label_text, selectors
from koord.base.documents import read_one
from koord.base.errors import Code, KoordError
from koord.controllers.descheduler.config.addresses import read_address
from koord.controllers.descheduler.config.configuration_file import (
    ADDRESS,
    LEASE,
    NAMESPACE,
    DeschedulerConfigurationFile,
    DeschedulerProfile,
    default_leader_election,
)
from koord.controllers.descheduler.config.policy_file import DeschedulerPolicyFile
from koord.controllers.descheduler.config.profiles import (
    API_VERSION,
    ProfileConfiguration,
    remembering,
    resolve,
)
from koord.controllers.descheduler.framework.limiter import EvictionLimits
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    check_selector,
    check_selector_text,
)
from koord.controllers.scheduler.config.configuration_file import (
    ClientConnection,
    LeaderElection,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.config.plugin_args import read_struct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from koord.api.kinds.meta import LabelSelector
    from koord.controllers.descheduler.framework.registry import PluginRegistry

CONFIGURATION, POLICY = "DeschedulerConfiguration", "DeschedulerPolicy"
DEFAULT_PROFILE = "koord-descheduler"
"""The name of a single profile that has none."""


@dataclass(frozen=True)
class DeschedulerConfiguration:
    """A configuration, complete and checked.

    Args:
        profiles: with their plugins, in the order of the file.
        limits: of each round.
        node_selector: labels of the nodes that are considered at all, as a structure.
        node_selector_text: the same as a text, of the other file.
        interval_seconds: between the starts of two rounds; 0 for one round and no more.
        dry_run: whether evictions are only counted.
        grace_period_seconds: of every eviction; None for the pod's own.
        events_of_failures: whether an eviction that fails is an event of its pod.
        without_claims: whether Reservations of migrations leave volumes of claims out.
        client: how the API server is reached.
        leader_election: which Lease is to be held.
        healthz_address: HOST:PORT of health and all else that is served.
        metrics_address: of metrics and health; the same for one port.
        warnings: what the file sets and has no effect, one line each.
    """

    profiles: tuple[ProfileConfiguration, ...]
    limits: EvictionLimits = field(default_factory=EvictionLimits)
    node_selector: LabelSelector | None = None
    node_selector_text: str = ""
    interval_seconds: float = 0.0
    dry_run: bool = False
    grace_period_seconds: int | None = None
    events_of_failures: bool = False
    without_claims: bool = False
    client: ClientConnection = field(default_factory=ClientConnection)
    leader_election: LeaderElection = field(default_factory=default_leader_election)
    healthz_address: str = ADDRESS
    metrics_address: str = ADDRESS
    warnings: tuple[str, ...] = ()


def load(path: Path, registry: PluginRegistry) -> DeschedulerConfiguration:
    """Reads a YAML or JSON file.

    Raises:
        KoordError: see :func:`decode`; or the file cannot be read, or is not one document.
    """
    return decode(read_one(path), str(path), registry)


def shipped(
    registry: PluginRegistry, *balance: str, interval: str = "0s"
) -> DeschedulerConfiguration:
    """The configuration that holds where no file is given: only migration jobs are carried out.

    Args:
        registry: the plugins.
        balance: strategies that run beside that, with their defaults.
        interval: between the starts of two rounds.
    """
    enabled = [{"name": name} for name in balance]
    document = {
        "apiVersion": API_VERSION,
        "kind": CONFIGURATION,
        "deschedulingInterval": interval,
        "profiles": [{"plugins": {"balance": {"enabled": enabled}}}],
    }
    return decode(document, "koord's configuration", registry)


def decode(document: object, source: str, registry: PluginRegistry) -> DeschedulerConfiguration:
    """The configuration of an already parsed document.

    Args:
        document: with apiVersion and kind, which tells the two files apart.
        source: what to call it in errors.
        registry: the plugins that profiles may name.

    Raises:
        KoordError: another version or kind, an unknown key, a wrong value, a plugin that is not
            known, a profile that cannot be; with the path of the field.
    """
    at = FieldPath(source)
    kinds = f"{CONFIGURATION} or {POLICY}"
    if not isinstance(document, dict):
        expected = f"a mapping with apiVersion {API_VERSION} and kind {kinds}"
        at.refuse("an empty file" if document is None else document, expected)
    version, kind = document.get("apiVersion"), document.get("kind")
    at.inside("apiVersion").need(version == API_VERSION, version, API_VERSION)
    body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    if kind == CONFIGURATION:
        file = read_struct(DeschedulerConfigurationFile, body, at, _prepared)
        return _of_configuration(file, registry, at)
    at.inside("kind").need(kind == POLICY, kind, kinds)
    return _of_policy(read_struct(DeschedulerPolicyFile, body, at), registry, at)


def _of_configuration(
    file: DeschedulerConfigurationFile, registry: PluginRegistry, at: FieldPath
) -> DeschedulerConfiguration:
    check_selector(file.node_selector, at.inside("nodeSelector"))
    interval = file.descheduling_interval
    spot = at.inside("deschedulingInterval")
    spot.need(interval.nanoseconds >= 0, str(interval), "a duration of 0 or more")
    at.inside("clientConnection", "burst").at_least(file.client_connection.burst, 0)
    file.leader_election.check(at.inside("leaderElection"))
    for index, profile in enumerate(file.profiles):
        check_selector(profile.node_selector, at.inside("profiles", index, "nodeSelector"))
    return DeschedulerConfiguration(
        remembering(_profiles(file.profiles, registry, at.inside("profiles")), interval),
        _limits(file, at),
        file.node_selector,
        interval_seconds=interval.nanoseconds / 1e9,
        dry_run=file.dry_run,
        client=file.client_connection,
        leader_election=file.leader_election,
        healthz_address=read_address(file.healthz_bind_address, at.inside("healthzBindAddress")),
        metrics_address=read_address(file.metrics_bind_address, at.inside("metricsBindAddress")),
        warnings=tuple(f"{at.source}: {line}" for line in _warnings(file)),
    )


def _of_policy(
    file: DeschedulerPolicyFile, registry: PluginRegistry, at: FieldPath
) -> DeschedulerConfiguration:
    check_selector_text(file.node_selector, at.inside("nodeSelector"))
    if file.grace_period_seconds is not None:
        at.inside("gracePeriodSeconds").at_least(file.grace_period_seconds, 0)
    for key, given in (
        ("metricsCollector", file.metrics_collector), ("metricsProviders", file.metrics_providers),
    ):  # fmt: skip
        if given:
            expected = "none: utilization is that of requests; LowNodeLoad goes by measured usage"
            raise KoordError(at.source, key, "a value", expected, Code.UNSUPPORTED)
    profiles = [profile.as_profile() for profile in file.profiles]
    return DeschedulerConfiguration(
        _profiles(profiles, registry, at.inside("profiles")),
        _limits(file, at),
        node_selector_text=file.node_selector,
        grace_period_seconds=file.grace_period_seconds,
        events_of_failures=file.eviction_failure_event_notification,
    )


def _profiles(
    profiles: Sequence[DeschedulerProfile], registry: PluginRegistry, at: FieldPath
) -> tuple[ProfileConfiguration, ...]:
    at.need(bool(profiles), [], "at least one profile")
    names = [profile.name for profile in profiles]
    if names == [""]:
        names = [DEFAULT_PROFILE]
    for index, name in enumerate(names):
        at.inside(index, "name").need(bool(name), name, "a name, since there are several profiles")
    at.distinct(names, "name")
    named = [
        msgspec.structs.replace(profile, name=name)
        for profile, name in zip(profiles, names, strict=True)
    ]
    return tuple(
        resolve(profile, registry, at.inside(index)) for index, profile in enumerate(named)
    )


def _limits(
    file: DeschedulerConfigurationFile | DeschedulerPolicyFile, at: FieldPath
) -> EvictionLimits:
    limits = {
        "maxNoOfPodsToEvictPerNode": file.max_no_of_pods_to_evict_per_node,
        "maxNoOfPodsToEvictPerNamespace": file.max_no_of_pods_to_evict_per_namespace,
        "maxNoOfPodsToEvictTotal": file.max_no_of_pods_to_evict_total,
    }
    for key, limit in limits.items():
        if limit is not None:
            at.inside(key).at_least(limit, 0)
    return EvictionLimits(*limits.values())


def _prepared(document: dict[str, Any]) -> dict[str, Any]:
    """Empty names and times of 0 of leader election are their defaults."""
    election = document.get("leaderElection")
    if not isinstance(election, dict):
        return document
    kept = {key: value for key, value in election.items() if value not in ("", "0", "0s")}
    lease = {"resourceName": LEASE, "resourceNamespace": NAMESPACE}
    return document | {"leaderElection": lease | kept}


def _warnings(file: DeschedulerConfigurationFile) -> list[str]:
    lines = []
    if file.enable_profiling or file.enable_contention_profiling:
        lines.append("enableProfiling has no effect: there are no pprof endpoints")
    client = file.client_connection
    if client.accept_content_types or client.content_type:
        lines.append("clientConnection: content types have no effect: JSON is spoken")
    return lines


def selects_node(configuration: DeschedulerConfiguration, labels: dict[str, str]) -> bool:
    """Whether a node is one that the configuration considers."""
    structure = configuration.node_selector
    if structure is not None and not selectors.matches(structure, labels):
        return False
    return label_text.matches(label_text.parse(configuration.node_selector_text), labels)
