# SPDX-License-Identifier: Apache-2.0
"""DynamicResources: rejects pods with resource claims, for nobody allocates these here.

Kubernetes' plugin of this name allocates them. Without one a pod would be bound, and wait for its
devices on the node for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle


class DynamicResources(Plugin):
    """PreFilter alone."""

    name = "DynamicResources"
    reads = PodField.RESOURCE_CLAIMS

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Nearly all pods have no claims."""
        return () if shape.pod.spec.resource_claims else ("pre_filter",)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Refuses a pod with claims; names them."""
        claims = cycle.shape.pod.spec.resource_claims
        if not claims:
            return None
        names = " ".join(str(claim.get("name", "")) for claim in claims)
        reason = f"spec.resourceClaims: got [{names}], expected none: koord allocates no claims"
        return Rejection(self.name, (reason,), unresolvable=True)
