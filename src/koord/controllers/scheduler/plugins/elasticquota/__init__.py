# SPDX-License-Identifier: Apache-2.0
"""Groups of pods own a minimum, may grow to a maximum, and share what is idle.

`state` keeps trees and charges, `admission` says who may use what, `allocation` preempts within
quotas, `writers` keep objects true, `explain` tells. Begin with `plugin`, then
`state.quota_trees`. Rules: docs/reference/quota-scheduling.md.
"""

from koord.controllers.scheduler.plugins.elasticquota.plugin import ElasticQuota

__all__ = ["ElasticQuota"]
