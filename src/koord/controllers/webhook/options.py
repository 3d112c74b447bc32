# SPDX-License-Identifier: Apache-2.0
"""Flags of admission: one field a flag, under the original's names and with its defaults.

Rules: docs/reference/admission.md. `koord-manager` has them beside its own, `koord-webhook` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from koord.base.errors import KoordError

ANY_NAMESPACE = "*"
CLUSTER_SCOPE, NAMESPACE_SCOPE = "cluster", "namespace"


@dataclass(frozen=True)
class WebhookOptions:
    """What admission is told, each with the text of ``--help``; floats are durations in seconds."""

    slo_config_name: Annotated[str, "name of the ConfigMap"] = "slo-controller-config"
    config_namespace: Annotated[str, "namespace of the ConfigMap"] = "koordinator-system"
    node_strategy_name_need_check: Annotated[
        bool, "node strategies of slo-controller-config need names of their own"
    ] = False
    quota_update_max_retries: Annotated[int, "of a quota's update; 3 is the least"] = 0
    quota_update_retry_jitter: Annotated[float, "longest pause before a retry"] = 0.0
    quota_update_max_total_jitter: Annotated[float, "longest of all pauses together"] = 1.0
    quota_update_conflict_fresh_get: Annotated[bool, "read past the cache on a conflict"] = False
    quota_scope: Annotated[str, "whose namespaces a quota reaches: cluster or namespace"] = (
        CLUSTER_SCOPE
    )
    pod_enhanced_validator_config_namespace: Annotated[str, "namespace of its ConfigMap"] = (
        "koordinator-system"
    )
    pod_enhanced_validator_config_name: Annotated[str, "name of its ConfigMap"] = (
        "pod-enhanced-validator-config"
    )
    pod_enhanced_validator_reconcile_interval: Annotated[float, "between two reads of it"] = 300.0
    binding_admission_user_name: Annotated[str, "who may bind pods; empty for everybody"] = ""
    binding_admission_dry_run: Annotated[bool, "count bindings to be refused, refuse none"] = False
    binding_admission_namespaces: Annotated[str, "where bindings are judged; * everywhere"] = ""
    binding_admission_exclude_namespaces: Annotated[str, "where they are not"] = "kube-system"
    binding_admission_bypass_labels: Annotated[str, "labels of pods that anybody may bind"] = (
        "koordinator.sh/binding-admission-bypass"
    )
    binding_admission_bypass_annotations: Annotated[
        str, "annotations of pods that anybody may bind"
    ] = ""
    reservation_scope: Annotated[str, "whom reservations are for: cluster or namespace"] = (
        CLUSTER_SCOPE
    )

    def check_scopes(self) -> None:
        """Refuses what is no scope.

        Raises:
            KoordError: the flag, its value and what would be right.
        """
        for flag, scope in (
            ("--quota-scope", self.quota_scope),
            ("--reservation-scope", self.reservation_scope),
        ):
            if scope not in (CLUSTER_SCOPE, NAMESPACE_SCOPE):
                raise KoordError(flag, "", scope, f"{CLUSTER_SCOPE} or {NAMESPACE_SCOPE}")
