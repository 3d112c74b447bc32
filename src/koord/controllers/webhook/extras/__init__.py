# SPDX-License-Identifier: Apache-2.0
"""koord's own rules for PodMigrationJobs and Devices, each behind a gate that is off.

They fail open: where something cannot be looked up, the request goes on.
"""

from koord.controllers.webhook.extras.handlers import HANDLERS

__all__ = ["HANDLERS"]
