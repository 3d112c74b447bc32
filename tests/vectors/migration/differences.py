# SPDX-License-Identifier: Apache-2.0
"""How koord's MigrationController differs from the original's."""

from __future__ import annotations

from tests.vectors.area import Difference

DIFFERENCES: dict[str, Difference] = {}
