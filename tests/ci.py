# SPDX-License-Identifier: Apache-2.0
"""Whether this is CI, where what tests need has to be there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

IN_CI = os.environ.get("CI", "").lower() in ("1", "true")


def missing(what: object) -> NoReturn:
    """Skips a test for which something is not there; in CI it fails."""
    pytest.fail(str(what)) if IN_CI else pytest.skip(str(what))
