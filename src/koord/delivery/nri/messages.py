# SPDX-License-Identifier: Apache-2.0
"""Types of NRI's messages and of ttrpc's, of the ``.proto`` files beside this module.

Rule: docs/reference/delivery.md#messages.
"""

from __future__ import annotations

from typing import Any

from koord.delivery.proto import load

NRI: Any = load(__package__, "nri.proto")
"""Classes of NRI's messages, e.g. ``NRI.PodSandbox``."""
TTRPC: Any = load(__package__, "ttrpc.proto")
"""``Request``, ``Response`` and ``Status``."""
