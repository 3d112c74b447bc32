# SPDX-License-Identifier: Apache-2.0
"""Whether this is CI, where what tests need has to be there."""

from __future__ import annotations

import os

IN_CI = os.environ.get("CI", "").lower() in ("1", "true")
