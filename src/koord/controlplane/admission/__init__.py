# SPDX-License-Identifier: Apache-2.0
"""Rules between a request and the store: those that Kubernetes builds in, and webhooks."""

from koord.controlplane.admission.caller import Caller
from koord.controlplane.admission.chain import Chain, chain

__all__ = ["Caller", "Chain", "chain"]
