# SPDX-License-Identifier: Apache-2.0
"""The two webhook configurations as koord is deployed: made of the table; they stop no cluster.

Rule: docs/reference/admission.md#webhooks.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from koord.controllers.webhook.framework.webhook_table import (
    VALIDATE_POD,
    VALIDATE_QUOTA,
    WEBHOOKS,
)

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controllers.webhook.framework.webhook_table import Webhook

IGNORE, FAIL = "Ignore", "Fail"
TIMEOUT_SECONDS = 3
MUTATING_NAME = "koordinator-mutating-webhook-configuration"
VALIDATING_NAME = "koordinator-validating-webhook-configuration"
SERVICE = "koordinator-webhook-service"
NAMESPACE = "koordinator-system"

_NAME_LABEL = "kubernetes.io/metadata.name"
# They charge quotas, or take from a parent's minimum; not where nothing may be written.
_WRITING = (VALIDATE_POD, VALIDATE_QUOTA)


def default_configurations(
    namespace: str = NAMESPACE, failure_policy: str = IGNORE
) -> tuple[Document, Document]:
    """The mutating and the validating configuration.

    Args:
        namespace: that koord runs in; pods there, and those of ``kube-system``, are not asked
            about, so that both start without koord.
        failure_policy: ``Ignore`` for all, or ``Fail`` for those that the original has so. What is
            asked about nodes and bindings is never: nothing would run where koord could.
    """
    made = []
    for mutating, kind, name in (
        (True, "MutatingWebhookConfiguration", MUTATING_NAME),
        (False, "ValidatingWebhookConfiguration", VALIDATING_NAME),
    ):
        entries = [each for each in WEBHOOKS if each.mutating is mutating]
        made.append(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "webhooks": [_entry(each, namespace, failure_policy) for each in entries],
            }
        )
    return made[0], made[1]


def _entry(webhook: Webhook, namespace: str, failure_policy: str) -> Document:
    resource = webhook.resource
    name = f"{resource.resource}/{resource.subresource}".rstrip("/")
    entry: Document = {
        "name": webhook.name,
        "admissionReviewVersions": ["v1", "v1beta1"],
        "sideEffects": "NoneOnDryRun" if webhook.path in _WRITING else "None",
        "failurePolicy": webhook.failure_policy if failure_policy == FAIL else IGNORE,
        "timeoutSeconds": TIMEOUT_SECONDS,
        "clientConfig": {
            "service": {"namespace": namespace, "name": SERVICE, "path": webhook.path}
        },
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [webhook.version],
                "operations": [str(each) for each in webhook.operations],
                "resources": [name],
            }
        ],
    }
    selector = copy.deepcopy(webhook.namespace_selector)
    if resource.resource == "pods":
        outside = {"key": _NAME_LABEL, "operator": "NotIn", "values": ["kube-system", namespace]}
        selector.setdefault("matchExpressions", []).append(outside)
    if selector:
        entry["namespaceSelector"] = selector
    if webhook.object_selector:
        entry["objectSelector"] = copy.deepcopy(webhook.object_selector)
    return entry
