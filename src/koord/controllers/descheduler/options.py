# SPDX-License-Identifier: Apache-2.0
"""Flags of koord-descheduler: one field a flag, with the names of the original and of
kubernetes-sigs/descheduler, and what they change in the configuration.

Rule: docs/reference/descheduling.md#flags.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import msgspec

from koord.api.duration import Duration
from koord.base.errors import KoordError
from koord.base.flag_pairs import Pair
from koord.controllers.descheduler.config.addresses import PORT, joined
from koord.controllers.descheduler.config.configuration_file import LEASE, NAMESPACE
from koord.controllers.descheduler.config.load import load, shipped
from koord.controllers.descheduler.feature_gates import feature_gates
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import check_selector_text
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.kube.daemon.secure_port_options import BESIDE_SECURE_PORT, SecurePortOptions

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.base.feature_gates import FeatureGates
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.framework.registry import PluginRegistry
    from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary

PLANNED, ONE_BY_ONE = "planned", "one-by-one"
ROUNDS = PLANNED, ONE_BY_ONE
"""How rounds come about."""
_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
"""Field of a flag to that of the configuration's ``leaderElection``."""


@dataclass(frozen=True)
class DeschedulerOptions(SecurePortOptions):
    """What koord-descheduler is told, each with the text of ``--help``; floats are durations in
    seconds.
    """

    config: Annotated[str, "what to do: a DeschedulerConfiguration or DeschedulerPolicy"] = ""
    policy_config_file: Annotated[str, "the same, by the name of kubernetes-sigs/descheduler"] = ""
    write_config_to: Annotated[str, "write what is in force there, as YAML, and end"] = ""
    dry_run: Annotated[bool, "judge and write nothing; say what would be written"] = False
    descheduling_interval: Annotated[
        float, "of a DeschedulerPolicy: between the starts of two rounds; 0 for one round"
    ] = 0.0
    node_selector: Annotated[str, "of a DeschedulerPolicy: nodes that are looked at"] = ""
    rounds: Annotated[
        str, "planned: worked out as a whole, where pods go included; or one-by-one"
    ] = PLANNED
    scheduler_config: Annotated[
        str, "by what pods find nodes in plans: the scheduler's KubeSchedulerConfiguration"
    ] = ""
    address: Annotated[str, "without --config: serve health and metrics on this IP"] = "127.0.0.1"
    port: Annotated[int, "without --config: and on this port; 0 for any free one"] = PORT
    leader_elect: Annotated[bool, "of several, one acts"] = True
    leader_elect_lease_duration: Annotated[float, "others leave an unchanged Lease alone"] = 15.0
    leader_elect_renew_deadline: Annotated[float, "the leader acts after a renewal"] = 10.0
    leader_elect_retry_period: Annotated[float, "between tries to take or renew"] = 2.0
    leader_elect_resource_lock: Annotated[str, "what the lead is held on"] = "leases"
    leader_elect_resource_name: Annotated[str, "of the Lease"] = LEASE
    leader_elect_resource_namespace: Annotated[str, "of the Lease"] = NAMESPACE
    feature_gates: Annotated[str, "switch features: A=true,B=false"] = ""

    def check(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            KoordError: the flag, its value and what would be right.
        """
        if self.config and self.policy_config_file:
            expected = "one file: none beside --config"
            raise KoordError("--policy-config-file", "", self.policy_config_file, expected)
        if self.rounds not in ROUNDS:
            raise KoordError("--rounds", "", self.rounds, " or ".join(ROUNDS))
        if not 0 <= self.port <= 65_535:
            raise KoordError("--port", "", self.port, "a whole number from 0 to 65535")
        check_selector_text(self.node_selector, FieldPath("--node-selector"))
        self.check_secure_port()
        self.gates()

    def gates(self) -> FeatureGates:
        """The feature gates.

        Raises:
            KoordError: an unknown one.
        """
        return feature_gates(self.feature_gates)

    @property
    def file(self) -> str:
        """The configuration file; empty for none."""
        return self.config or self.policy_config_file

    def library(self) -> SchedulerLibrary | None:
        """The scheduler's, by which rounds are planned; None for rounds one by one."""
        if self.rounds == ONE_BY_ONE:
            return None
        from pathlib import Path

        from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary

        return SchedulerLibrary.read(Path(self.scheduler_config) if self.scheduler_config else None)

    def configuration(
        self, registry: PluginRegistry, given: Collection[str]
    ) -> DeschedulerConfiguration:
        """What is in force: the file, and above it the flags that were given.

        Args:
            registry: the plugins.
            given: the names of fields whose flags were given.

        Raises:
            KoordError: what is wrong, with file, path, value and what is allowed.
        """
        from pathlib import Path

        if self.file:
            found = load(Path(self.file), registry)
        else:
            address = joined(self.address.strip("[]"), self.port)
            found = replace(shipped(registry), healthz_address=address, metrics_address=address)
        if "descheduling_interval" in given:
            found = replace(found, interval_seconds=self.descheduling_interval)
        if "node_selector" in given:
            found = replace(found, node_selector_text=self.node_selector)
        found = replace(found, dry_run=found.dry_run or self.dry_run)
        changed = {
            name: _as_written(getattr(self, field))
            for field, name in _ELECTION.items()
            if field in given
        }
        election = msgspec.structs.replace(found.leader_election, **changed)
        election.check(FieldPath("the flags --leader-elect-*"))
        return replace(found, leader_election=election)


def _as_written(value: object) -> object:
    return Duration.of_seconds(value) if isinstance(value, float) else value


_LEASE = (
    "leader_elect_lease_duration", "leader_elect_renew_deadline", "leader_elect_retry_period",
    "leader_elect_resource_lock", "leader_elect_resource_name", "leader_elect_resource_namespace",
)  # fmt: skip


PAIRS = (
    Pair(("scheduler_config",), "--rounds=one-by-one", False, lambda o: o.rounds == ONE_BY_ONE),
    Pair(("address", "port"), "--config", False, lambda options: bool(options.file)),
    Pair((*_LEASE, "leader_elect"), "--dry-run", False, lambda options: options.dry_run),
    Pair(_LEASE, "--leader-elect=false", False, lambda options: not options.leader_elect),
    Pair(BESIDE_SECURE_PORT, "--secure-port", True, lambda options: not options.secure_port),
)  # fmt: skip
"""Flags that have no effect beside others, or without them; of several that apply to a flag the
first counts."""
