# SPDX-License-Identifier: Apache-2.0
"""Pods are charged to their quota when they are made (gate ``EnableQuotaAdmission``).

Begin with `quota_admission`; `pod_charge` says what a pod costs and whether it fits, `quota_writer`
settles batches of pods by conditional writes.
"""

from koord.controllers.webhook.quota_admission.quota_admission import QuotaAdmission

__all__ = ["QuotaAdmission"]
