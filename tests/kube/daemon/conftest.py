# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.kube.loops import on_both_loops

__all__ = ["on_both_loops"]
