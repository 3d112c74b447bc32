# SPDX-License-Identifier: Apache-2.0
"""LoadAwareScheduling: real load, and the load that is on its way, instead of requests alone."""

from koord.controllers.scheduler.plugins.loadaware.plugin import LoadAwareScheduling

__all__ = ["LoadAwareScheduling"]
