# SPDX-License-Identifier: Apache-2.0
"""A configuration that is in force, as the file that says all of it.

Rule: docs/reference/descheduling.md#configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.codec import parse_json, to_json
from koord.api.duration import Duration
from koord.controllers.descheduler.config.profiles import API_VERSION

if TYPE_CHECKING:
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.config.profiles import ProfileConfiguration

_ALL = [{"name": "*"}]


def written(configuration: DeschedulerConfiguration) -> dict[str, Any]:
    """A DeschedulerConfiguration, defaults included; what a DeschedulerPolicy says beside is left
    out, since that file alone has it.
    """
    limits = configuration.limits
    document = {
        "apiVersion": API_VERSION,
        "kind": "DeschedulerConfiguration",
        "deschedulingInterval": str(Duration.of_seconds(configuration.interval_seconds)),
        "dryRun": configuration.dry_run,
        "nodeSelector": configuration.node_selector,
        "maxNoOfPodsToEvictPerNode": limits.per_node,
        "maxNoOfPodsToEvictPerNamespace": limits.per_namespace,
        "maxNoOfPodsToEvictTotal": limits.total,
        "healthzBindAddress": configuration.healthz_address,
        "metricsBindAddress": configuration.metrics_address,
        "clientConnection": configuration.client,
        "leaderElection": configuration.leader_election,
        "profiles": [_profile(each) for each in configuration.profiles],
    }
    # As plain values: what writes YAML knows no structs.
    plain: dict[str, Any] = parse_json(to_json(document), "configuration")
    return {key: value for key, value in plain.items() if value is not None}


def _profile(profile: ProfileConfiguration) -> dict[str, Any]:
    plugins = {
        point: {"enabled": [{"name": name} for name in names], "disabled": _ALL}
        for point, names in profile.plugins.items()
    }
    args = [{"name": name, "args": args} for name, args in sorted(profile.args.items())]
    return {
        "name": profile.name,
        **({} if profile.node_selector is None else {"nodeSelector": profile.node_selector}),
        "plugins": plugins,
        "pluginConfig": args,
    }
