# SPDX-License-Identifier: Apache-2.0
"""Admission of ElasticQuotas: defaults, the rules among the others, a parent's minimum.

Begin with `handlers`. Rules are functions of plain values in `quota_defaults`, `quota_changes`,
`guarantee` and :mod:`koord.controllers.cluster.quota_validation`; `quota_topology` is what a
replica knows, `minimum_claims` and `parent_writer` what replicas agree upon.
"""

from koord.controllers.webhook.elasticquotas.handlers import HANDLERS

__all__ = ["HANDLERS"]
