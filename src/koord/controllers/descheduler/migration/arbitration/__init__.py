# SPDX-License-Identifier: Apache-2.0
"""Which jobs may go on, and in which order."""

from __future__ import annotations
