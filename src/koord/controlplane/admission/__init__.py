# SPDX-License-Identifier: Apache-2.0
"""Admission plugins between a request and the store: those that Kubernetes builds in, and webhooks.

``plugin`` is what one is, ``chain`` their order; ``webhooks`` calls what is configured
(``webhook_rules``: whom, ``admission_review``: what is asked, ``webhook_client``: how it is
reached). Begin with ``chain``.
"""

from koord.controlplane.admission.chain import Chain, chain
from koord.controlplane.admission.webhook_client import WebhookClient

__all__ = ["Chain", "WebhookClient", "chain"]
