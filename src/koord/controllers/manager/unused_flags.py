# SPDX-License-Identifier: Apache-2.0
"""Flags of the original's koord-manager that are taken and have no effect here, each with why.

Rule: docs/reference/manager.md#flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.log import KLOG_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_PPROF = "there are no pprof endpoints"
_LOG = "the log goes to standard error, one line a message"

UNUSED: Mapping[str, str] = {
    "enable-pprof": _NO_PPROF,
    "pprof-addr": _NO_PPROF,
    "disable-no-deepcopy": "objects in caches are never copied",
    **dict.fromkeys(KLOG_FLAGS, _LOG),
}
