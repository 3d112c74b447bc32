# SPDX-License-Identifier: Apache-2.0
"""How many examples a property test takes whose every example is dear."""

from __future__ import annotations

from hypothesis import settings


def examples(share: float) -> int:
    """A share of the profile's examples, so that a soak explores more here as everywhere.

    Args:
        share: above 0, at most 1; of the 50 of the profile ``dev``, or the 100 of ``ci``.
    """
    return max(1, round(share * settings.default.max_examples))
