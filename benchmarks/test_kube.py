# SPDX-License-Identifier: Apache-2.0
"""Listing pods into typed objects against the ``kubernetes`` package's own typed list."""

from __future__ import annotations

from benchmarks.conftest import Record
from benchmarks.kube_list import measure
from benchmarks.ratio import Ratio

PODS = 3000
AT_LEAST_FASTER = 10.0
AT_LEAST_SMALLER = 5.0


def test_list(record: Record) -> None:
    costs = measure(PODS)
    ours, theirs = costs["koord"], costs["kubernetes"]
    assert ours.pods == theirs.pods == PODS
    # CPU seconds: what else runs on the machine does not count.
    record(f"kube: list {PODS} pods", Ratio(ours.cpu_seconds, theirs.cpu_seconds), AT_LEAST_FASTER)
    assert theirs.resident_bytes >= AT_LEAST_SMALLER * ours.resident_bytes
