# SPDX-License-Identifier: Apache-2.0
"""Patches from columns: their texts, and what becomes of them on a server.

That they are those of objects is in ``state/test_reconciled_nodes.py``.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api import Node, NodeResourceTopology
from koord.api.codec import to_document, to_json
from koord.base.clock import VirtualClock
from koord.controllers.manager.noderesource.writers import decided_patches
from koord.controllers.manager.noderesource.writers.decided_patches import (
    DecidedPatches,
    ZoneTemplates,
    milli_text,
    status_patch,
    whole_text,
    zones_patch,
)
from koord.controllers.manager.noderesource.writers.node_writer import (
    DecidedWrites,
    NodeWriter,
    WriteOutcome,
)
from koord.controllers.manager.noderesource.writers.patch_writer import PatchWriter
from koord.controllers.manager.overcommit.formulas.threshold import ABSENT
from koord.kernels.quantity import Quantity
from koord.kube.client import Client
from koord.kube.errors import ApiError
from tests.controllers.manager.noderesource import builders
from tests.kube.harness import FakeTransport, answer, failure, run_virtual

CONFLICT = failure(409, "Conflict")


@given(st.integers(0, 2**52) | st.integers(0, 2**42).map(lambda count: count * 1000))
def test_amounts_are_written_as_quantities(amount: int) -> None:
    assert whole_text(amount) == str(Quantity.from_value(amount))
    assert milli_text(amount) == str(Quantity.from_milli(amount))


def test_what_differs_is_in_a_patch_and_nothing_else() -> None:
    wanted, patch = status_patch("7", (5, 6, 7, 8), (5, 2000, ABSENT, 9), None)
    assert patch is not None
    assert patch.conditional
    amounts = b",".join([
        b'{"kubernetes.io/batch-memory":"2k"', b'"kubernetes.io/mid-cpu":null',
        b'"kubernetes.io/mid-memory":"9"}',
    ])  # fmt: skip
    body = b'{"metadata":{"resourceVersion":"7"},"status":{"capacity":%b,"allocatable":%b}}'
    assert patch.body == body % (amounts, amounts)
    assert not wanted.beside
    assert status_patch("7", (5, 6, 7, 8), (5, 6, 7, 8), None)[1] is None


def zones_of(*zones: dict[str, Any]) -> NodeResourceTopology:
    return builders.topology(list(zones))


def zone(name: str, cpu: str = "8", kind: str = "Node") -> dict[str, Any]:
    own = {"name": "cpu", "capacity": cpu, "allocatable": cpu, "available": cpu}
    return {"name": name, "type": kind, "resources": [own]}


def test_machines_alike_share_a_template() -> None:
    known = ZoneTemplates()
    one = known.of(zones_of(zone("node-0"), zone("node-1")))
    assert one is known.of(zones_of(zone("node-0"), zone("node-1")))
    assert one is not known.of(zones_of(zone("node-0"), zone("node-1", "9")))
    assert one is not None
    shown = zones_of(zone("node-0"), zone("node-1"))
    assert one.text((ABSENT, ABSENT), (ABSENT, ABSENT)) == to_json(shown.zones).decode()


def test_zones_that_text_cannot_stand_for() -> None:
    known = ZoneTemplates()
    assert known.of(zones_of(zone("node-0", "1000000000000007"))) is None, "as a mark is written"
    long = zones_of(zone("n" * decided_patches.LONGEST_ZONES))
    assert known.of(long) is None, "whoever writes it could fill memory with it"
    percent = known.of(zones_of(zone("node-0"), zone("50%s", kind="Socket")))
    assert percent is not None
    assert '"name":"50%s"' in percent.text((5,), (6,))


def test_machines_too_many_are_made_of_objects() -> None:
    known = ZoneTemplates()
    for number in range(decided_patches.MOST_TEMPLATES):
        assert known.of(zones_of(zone("node-0", str(number)))) is not None
    assert known.of(zones_of(zone("node-0", "99999"))) is None
    assert known.of(zones_of(zone("node-0", "5"))) is not None


def sent(*steps: object) -> DecidedWrites:
    """What comes of a node that is to offer 5 milli-cores, and its zone likewise."""
    script: list[Any] = [answer(step) if isinstance(step, dict) else step for step in steps]
    client = Client(FakeTransport(script), requests_per_second=None)
    writer = NodeWriter(PatchWriter(client), clock := VirtualClock())
    node, topology = builders.node({}), zones_of(zone("node-0"))
    wanted, patch = status_patch("7", 4 * (ABSENT,), (5, 6, ABSENT, ABSENT), None)
    template = ZoneTemplates().of(topology)
    assert patch is not None
    assert template is not None
    text = template.text((5,), (6,))
    patches = DecidedPatches(wanted, patch, zones_patch("9", text), text.encode())
    found: DecidedWrites = run_virtual(writer.as_decided(node, topology, patches), clock)
    return found


def node_answer(**amounts: str) -> dict[str, Any]:
    document = to_document(
        builders.node({f"kubernetes.io/batch-{k}": v for k, v in amounts.items()})
    )
    return {"apiVersion": "v1", "kind": "Node", **document}


def zones_answer(cpu: str = "5") -> dict[str, Any]:
    def told(name: str, text: str) -> dict[str, str]:
        return {"name": name, "capacity": text, "allocatable": text, "available": text}

    shown = zone("node-0")
    shown["resources"] += [
        told("kubernetes.io/batch-cpu", cpu), told("kubernetes.io/batch-memory", "6m"),
    ]  # fmt: skip
    return {"kind": "NodeResourceTopology", **to_document(zones_of(shown))}


def test_all_goes_as_decided() -> None:
    found = sent(node_answer(cpu="5", memory="6"), zones_answer())
    assert isinstance(found.node, WriteOutcome)
    assert isinstance(found.zones, WriteOutcome)
    assert found.node.left_seconds is found.zones.left_seconds is None


def test_it_ends_where_something_else_came_of_it() -> None:
    found = sent(CONFLICT)
    assert isinstance(found.node, ApiError)
    assert found.zones is None
    found = sent(node_answer(cpu="4", memory="6"))
    assert isinstance(found.node, Node), "the server had its own mind"
    assert found.zones is None
    found = sent(node_answer(cpu="5", memory="6"), failure(404, "NotFound"))
    assert isinstance(found.node, WriteOutcome)
    assert isinstance(found.zones, ApiError)
    found = sent(node_answer(cpu="5", memory="6"), zones_answer("4"))
    assert isinstance(found.node, WriteOutcome)
    assert isinstance(found.zones, NodeResourceTopology)
