# SPDX-License-Identifier: Apache-2.0
"""Quotas and pods for tests, from few words, and the trees over them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from koord.api.codec import convert
from koord.api.kinds.quota import ElasticQuota, GroupQuota
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.elasticquota.admission import RuntimeQuotaAdmission
from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
    QuotaTreeOptions,
    QuotaTrees,
)
from tests.controllers.scheduler import pods as builders

PREFIX = "quota.scheduling.koordinator.sh/"


def quota(name: str, namespace: str = "default", **fields: Any) -> ElasticQuota:
    """A canonical quota; resources as ``{"cpu": "4"}``, labels and annotations without prefix."""
    labels = {PREFIX + key: text for key, text in fields.pop("labels", {}).items()}
    notes = {
        PREFIX + key: text if isinstance(text, str) else json.dumps(text)
        for key, text in fields.pop("notes", {}).items()
    }
    if "parent" in fields:
        labels[PREFIX + "parent"] = fields.pop("parent")
    document = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
    meta = {"name": name, "namespace": namespace, "labels": labels, "annotations": notes}
    meta |= _created(fields.pop("created", None))
    return convert({**document, "metadata": meta, "spec": fields}, ElasticQuota, name)


def guide(name: str, namespace: str, **spec: Any) -> GroupQuota:
    """A quota of the guide's kind."""
    document = {"apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuota"}
    meta = {"name": name, "namespace": namespace, **_created(spec.pop("created", None))}
    return convert({**document, "metadata": meta, "spec": spec}, GroupQuota, name)


def pod(name: str, group: str = "", *, strict: bool = False, **fields: Any) -> PodInfo:
    """A pod that names a group; ``strict`` ones must not be preempted."""
    labels = dict(fields.pop("labels", {}))
    if group:
        labels[PREFIX + "name"] = group
    if strict:
        labels[PREFIX + "preemptible"] = "false"
    return builders.info(builders.pod(name, labels=labels, uid=name, **fields))


def cluster(
    total: dict[str, int] | None = None, settings: QuotaTreeOptions | None = None, **ledger: Any
) -> tuple[QuotaTrees, QuotaLedger, RuntimeQuotaAdmission]:
    """Trees, accounts and admission over them."""
    groups = QuotaTrees(settings)
    kept = QuotaLedger(groups, **ledger)
    groups.set_total(total or {})
    return groups, kept, RuntimeQuotaAdmission(groups, kept)


def _created(second: int | None) -> dict[str, str]:
    if second is None:
        return {}
    when = datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
    return {"creationTimestamp": when}
