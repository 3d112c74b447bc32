# SPDX-License-Identifier: Apache-2.0
"""Reads a configuration file, resolves its profiles, and says what of it has no effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.documents import read_one
from koord.base.errors import Code, KoordError
from koord.controllers.scheduler.config.configuration_file import ConfigurationFile, ProfileFile
from koord.controllers.scheduler.config.defaults import DEFAULT_SCHEDULER_NAME, shipped_document
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.config.plugin_args import API_VERSION, read_struct
from koord.controllers.scheduler.config.profiles import resolve
from koord.controllers.scheduler.queue.options import QueueOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from koord.controllers.scheduler.config.configuration_file import (
        ClientConnection,
        LeaderElection,
    )
    from koord.controllers.scheduler.config.profiles import Profile
    from koord.controllers.scheduler.registry import Registry

KIND = "KubeSchedulerConfiguration"
_QPS, _BURST = 50.0, 100


@dataclass(frozen=True)
class SchedulerConfiguration:
    """A configuration, complete and checked.

    Args:
        profiles: scheduler names with their plugins, in the order of the file.
        client: how the API server is reached.
        leader_election: which Lease is to be held.
        queue: times of the scheduling queue.
        warnings: what the file sets and has no effect, one line each.
    """

    profiles: tuple[Profile, ...]
    client: ClientConnection
    leader_election: LeaderElection
    queue: QueueOptions
    warnings: tuple[str, ...] = ()

    def scoped(self, quotas: str, reservations: str, fairness: str = "") -> SchedulerConfiguration:
        """The same with other scopes and fairness in every profile; an empty one stays as it is."""
        wanted = {
            "ElasticQuota": {"quota_scope": quotas} if quotas else {},
            "Reservation": {"reservation_scope": reservations} if reservations else {},
            "PrioritySort": {"fairness": fairness} if fairness else {},
        }
        profiles = []
        for profile in self.profiles:
            args = {
                name: msgspec.structs.replace(each, **wanted.get(name, {}))
                for name, each in profile.args.items()
            }
            profiles.append(replace(profile, args=args))
        return replace(self, profiles=tuple(profiles))

    @property
    def qps(self) -> float:
        """Requests a second, 0 in the file being the default; below 0 without a limit."""
        return self.client.qps or _QPS

    @property
    def burst(self) -> int:
        """Requests at once before that rate holds."""
        return self.client.burst or _BURST


def load(path: Path, registry: Registry) -> SchedulerConfiguration:
    """Reads a YAML or JSON file.

    Raises:
        KoordError: see :func:`decode`; or the file cannot be read, or is not one document.
    """
    return decode(read_one(path), str(path), registry)


def shipped(
    registry: Registry, *scheduler_names: str, scarce: Sequence[str] = ()
) -> SchedulerConfiguration:
    """The configuration that holds where no file is given.

    Args:
        registry: the plugins.
        scheduler_names: a profile for each; ``koord-scheduler`` if none is named.
        scarce: resources whose nodes are kept for pods that ask for them, as far as others fit
            elsewhere.
    """
    document = shipped_document(*scheduler_names, scarce=scarce)
    return decode(document, "koord's configuration", registry)


def decode(document: object, source: str, registry: Registry) -> SchedulerConfiguration:
    """The configuration of an already parsed document.

    Args:
        document: with apiVersion and kind.
        source: what to call it in errors.
        registry: the plugins that profiles may name.

    Raises:
        KoordError: another version or kind, an unknown key, a wrong value, a plugin that is not
            known, a profile that cannot be; with the path of the field.
    """
    at = FieldPath(source)
    if not isinstance(document, dict):
        at.refuse(
            "an empty file" if document is None else document,
            f"a mapping with apiVersion {API_VERSION} and kind {KIND}",
        )
    at.inside("apiVersion").need(
        document.get("apiVersion") == API_VERSION, document.get("apiVersion"), API_VERSION
    )
    at.inside("kind").need(document.get("kind") == KIND, document.get("kind"), KIND)
    body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    found = read_struct(ConfigurationFile, body, at, _prepared)
    _check(found, at)
    return SchedulerConfiguration(
        tuple(_profiles(found.profiles or [ProfileFile()], registry, at.inside("profiles"))),
        found.client_connection,
        found.leader_election,
        QueueOptions(
            float(found.pod_initial_backoff_seconds), float(found.pod_max_backoff_seconds)
        ),
        tuple(f"{source}: {line}" for line in _warnings(found)),
    )


def _prepared(document: dict[str, Any]) -> dict[str, Any]:
    """Empty names and times of 0 of leader election are their defaults, as at kube-scheduler."""
    election = document.get("leaderElection")
    if not isinstance(election, dict):
        return document
    zeros = ("", "0", "0s")
    kept = {key: value for key, value in election.items() if value not in zeros}
    return document | {"leaderElection": kept}


def _check(file: ConfigurationFile, at: FieldPath) -> None:
    if file.extenders:
        expected = "none: koord calls no extenders; what one does is a plugin of koord's framework"
        field = "extenders"
        raise KoordError(at.source, field, len(file.extenders), expected, Code.UNSUPPORTED)
    if file.parallelism is not None:
        at.inside("parallelism").at_least(file.parallelism, 1)
    _check_percentage(file.percentage_of_nodes_to_score, at)
    initial, longest = file.pod_initial_backoff_seconds, file.pod_max_backoff_seconds
    at.inside("podInitialBackoffSeconds").at_least(initial, 1)
    expected = f"at least podInitialBackoffSeconds, which is {initial}"
    at.inside("podMaxBackoffSeconds").need(longest >= initial, longest, expected)
    at.inside("clientConnection", "burst").at_least(file.client_connection.burst, 0)
    file.leader_election.check(at.inside("leaderElection"))


def _check_percentage(percentage: int | None, at: FieldPath) -> None:
    if percentage is not None:
        at.inside("percentageOfNodesToScore").between(percentage, 0, 100)


def _profiles(files: Sequence[ProfileFile], registry: Registry, at: FieldPath) -> Iterator[Profile]:
    names = [profile.scheduler_name for profile in files]
    if names == [None]:
        names = [DEFAULT_SCHEDULER_NAME]
    first: Profile | None = None
    for index, (profile, name) in enumerate(zip(files, names, strict=True)):
        spot = at.inside(index)
        if not name:
            spot.inside("schedulerName").refuse(name, "a name, since there are several profiles"
                                                if len(files) > 1 else "a name")  # fmt: skip
        taken = names.index(name)
        expected = f"a name that profiles[{taken}] does not have"
        spot.inside("schedulerName").need(taken == index, name, expected)
        _check_percentage(profile.percentage_of_nodes_to_score, spot)
        found = resolve(profile, name, registry, spot)
        first = first or found
        _check_queue_sort(first, found, spot)
        yield found


def _check_queue_sort(first: Profile, profile: Profile, at: FieldPath) -> None:
    """All profiles share one queue, so they must sort it alike."""
    (sort,), (chosen,) = first.at("queueSort"), profile.at("queueSort")
    expected = f"{sort}, as in profiles[0]: all profiles share one queue"
    at.inside("plugins", "queueSort").need(chosen == sort, chosen, expected)
    same = first.args.get(sort) == profile.args.get(sort)
    at.inside("pluginConfig").need(same, f"args of {sort}", "those of profiles[0]")


def _warnings(file: ConfigurationFile) -> Iterator[str]:
    every_node = "has no effect: every node is looked at"
    if file.parallelism is not None:
        yield "parallelism has no effect: decisions are made on one core"
    if file.percentage_of_nodes_to_score is not None:
        yield f"percentageOfNodesToScore {every_node}"
    if any(profile.percentage_of_nodes_to_score is not None for profile in file.profiles):
        yield f"profiles: percentageOfNodesToScore {every_node}"
    if file.delay_cache_until_active:
        yield "delayCacheUntilActive has no effect: a standby keeps its cache"
    if file.enable_profiling or file.enable_contention_profiling:
        yield "enableProfiling has no effect: there are no pprof endpoints"
    client = file.client_connection
    if client.accept_content_types or client.content_type:
        yield "clientConnection: content types have no effect: JSON is spoken"
    for profile in file.profiles:
        for config in profile.plugin_config:
            args = config.args or {}
            if config.name == "DeviceShare" and args.get("allocator"):
                yield "DeviceShareArgs: allocator has no effect: there is one"
            if config.name == "Coscheduling" and args.get("skipCheckScheduleCycle") is not None:
                yield "CoschedulingArgs: skipCheckScheduleCycle has no effect: there are no cycles"
