# SPDX-License-Identifier: Apache-2.0
"""Cases of the area ``migration``, and the differences on them."""

from __future__ import annotations
