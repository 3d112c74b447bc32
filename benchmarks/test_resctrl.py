# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from benchmarks.conftest import Gate
from koord.kernels import resctrl
from koord.kernels.resctrl import Schemata
from tests.models import resctrl as model

TABLE = dict.fromkeys(range(16), 0xFFFF)
TEXT = Schemata(l3=TABLE).format()


def test_parse(gate: Gate) -> None:
    gate("resctrl: parse 16 L3 masks", lambda: resctrl.parse_schemata(TEXT),
         lambda: model.parse_table(TEXT, 16), 1.0)  # fmt: skip


def test_format(gate: Gate) -> None:
    schemata = Schemata(l3=TABLE)
    gate("resctrl: format 16 L3 masks", schemata.format,
         lambda: model.format_table("L3", TABLE, "x"), 1.0)  # fmt: skip
