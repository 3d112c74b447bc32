# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation: kinds that schedulers and controllers watch, stored as they come."""

from __future__ import annotations

from koord.controlplane.resource import Strategy


class DeviceStrategy(Strategy):
    """DeviceClasses, ResourceSlices, ResourceClaimTemplates, VolumeAttributesClasses."""

    returns_deleted = True


class ResourceClaimStrategy(DeviceStrategy):
    """ResourceClaims, whose status is the scheduler's and the driver's."""

    status_subresource = True
