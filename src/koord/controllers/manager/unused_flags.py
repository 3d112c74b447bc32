# SPDX-License-Identifier: Apache-2.0
"""Flags of the original's koord-manager that are taken and have no effect here, each with why.

Rule: docs/reference/manager.md#flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.log import KLOG_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_WEBHOOK = "there is no webhook yet"
_NO_PPROF = "there are no pprof endpoints"
_LOG = "the log goes to standard error, one line a message"

UNUSED: Mapping[str, str] = {
    "enable-pprof": _NO_PPROF,
    "pprof-addr": _NO_PPROF,
    "disable-no-deepcopy": "objects in caches are never copied",
    "node-strategy-name-need-check": _NO_WEBHOOK,
    "quota-update-max-retries": _NO_WEBHOOK,
    "quota-update-retry-jitter": _NO_WEBHOOK,
    "quota-update-max-total-jitter": _NO_WEBHOOK,
    "quota-update-conflict-fresh-get": _NO_WEBHOOK,
    "pod-enhanced-validator-config-namespace": _NO_WEBHOOK,
    "pod-enhanced-validator-config-name": _NO_WEBHOOK,
    "pod-enhanced-validator-reconcile-interval": _NO_WEBHOOK,
    "binding-admission-user-name": _NO_WEBHOOK,
    "binding-admission-dry-run": _NO_WEBHOOK,
    "binding-admission-namespaces": _NO_WEBHOOK,
    "binding-admission-exclude-namespaces": _NO_WEBHOOK,
    "binding-admission-bypass-labels": _NO_WEBHOOK,
    "binding-admission-bypass-annotations": _NO_WEBHOOK,
    **dict.fromkeys(KLOG_FLAGS, _LOG),
}
