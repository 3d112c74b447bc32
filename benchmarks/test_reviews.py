# SPDX-License-Identifier: Apache-2.0
"""The server of admission against a bare aiohttp handler of the same body, over TLS.

Ours tells the documents apart and makes the patch, counts and bounds; the bare one answers a patch
that stands ready.
"""

from __future__ import annotations

from benchmarks.conftest import Record
from benchmarks.ratio import Ratio
from benchmarks.reviews import measured

ROUNDS = 2


def test_reviews_over_tls(record: Record) -> None:
    pairs = [(measured(True).cpu_seconds, measured(False).cpu_seconds) for _ in range(ROUNDS)]
    ratio = Ratio(min(mine for mine, _ in pairs), min(theirs for _, theirs in pairs))
    record("admission: a review over TLS, against a bare aiohttp handler", ratio, 0.5)
