# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from benchmarks.conftest import Gate
from koord.kernels.cpuset import CPUSet
from tests.models import cpuset as model

TEXT = "0-3,8-11,16,20-47,64-95,128-255"
IDS = model.parse_wire(TEXT)


def test_parse(gate: Gate) -> None:
    gate("cpuset: parse 200 CPUs", lambda: CPUSet.parse_wire(TEXT), lambda: plain_parse(TEXT), 10.0)


def test_print(gate: Gate) -> None:
    cpus = CPUSet.from_ids(IDS)
    gate("cpuset: print 200 CPUs", lambda: str(cpus), lambda: model.canonical(IDS), 18.0)


def plain_parse(text: str) -> set[int]:
    """The bare loop, without the model's regular expressions."""
    ids: set[int] = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        ids.update(range(int(first), int(last or first) + 1))
    return ids
