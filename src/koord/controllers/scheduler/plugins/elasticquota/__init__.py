# SPDX-License-Identifier: Apache-2.0
"""ElasticQuota: groups of pods own a minimum, may grow to a maximum, and share what is idle."""

from koord.controllers.scheduler.plugins.elasticquota.plugin import ElasticQuota

__all__ = ["ElasticQuota"]
