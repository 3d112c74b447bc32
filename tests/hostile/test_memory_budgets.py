# SPDX-License-Identifier: Apache-2.0
"""What is remembered of objects that came and went has a budget of memory, and is given back.

Rules: docs/limits.md, docs/limits-server.md.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from koord.api import Pod
from koord.api.kinds.constraints import Toleration
from koord.base.errors import KoordError
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
    read_card_allocations,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    recorded_allocation,
)
from koord.controlplane.kinds.validation import names, resources
from koord.controlplane.requests import representations, routes, selectors
from koord.controlplane.schema.codec import scalars
from koord.controlplane.storage import store
from koord.kernels.sharing import SharingBudget
from koord.kube.codec.decoder import decoder_of
from koord.kube.codec.interner import Interner
from koord.kube.codec.page_reader import PageReader
from koord.kube.errors import ApiError
from koord.kube.requests.options import resolve
from tests.controllers.scheduler.pods import pod

MIB = 1 << 20
Change = Callable[[random.Random, dict[str, object]], None]


def words(drawn: random.Random, count: int) -> list[str]:
    return [f"w{drawn.getrandbits(48):x}" for _ in range(count)]


def own_labels(drawn: random.Random, document: dict[str, object]) -> None:
    named = words(drawn, 200)
    metadata = {"name": named[0], "uid": named[1], "labels": dict.fromkeys(named, named[2])}
    document["metadata"] = metadata


def tolerations(drawn: random.Random, document: dict[str, object]) -> None:
    tolerated = [{"key": key, "operator": "Exists"} for key in words(drawn, 200)]
    document["spec"] = {"containers": [], "tolerations": tolerated}


def long_messages(drawn: random.Random, document: dict[str, object]) -> None:
    message = "Insufficient " + ", ".join(words(drawn, 2_000))
    document["status"] = {"conditions": [{"type": "PodScheduled", "message": message}]}


def many_environments(drawn: random.Random, document: dict[str, object]) -> None:
    variables = [{"name": key, "value": key} for key in words(drawn, 30)]
    requests = {f"example.com/{key}": "1" for key in words(drawn, 60)}
    container = {"image": words(drawn, 1)[0], "env": variables, "resources": {"requests": requests}}
    document["spec"] = {"containers": [{"name": "c", **container}]}


CHANGES = [own_labels, tolerations, long_messages, many_environments]


@pytest.mark.parametrize("change", CHANGES)
def test_informers_share_one_budget_of_memory(change: Change) -> None:
    """Three readers of pods, whatever the pods have many of."""
    size, drawn = 2 * MIB, random.Random(1)
    budget = SharingBudget(size)
    readers = [PageReader(TrimmedPod, Interner(budget=budget)) for _ in range(3)]
    decoder = decoder_of(resolve(Pod)[0], TrimmedPod)
    used = []
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(4):
            for _ in range(50):
                document: dict[str, object] = {"metadata": {"name": "p"}, "spec": {}, "status": {}}
                change(drawn, document)
                page = msgspec.json.encode({"metadata": {}, "items": [document]})
                for reader in readers:
                    assert decoder.page(page, reader).items
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert budget.size <= size
    assert max(used) <= size, used


def test_what_informers_remembered_goes_with_them() -> None:
    budget = SharingBudget(MIB)
    staying, *going = (Interner(budget=budget) for _ in range(4))
    for sharer in going:
        for number in range(250):
            sharer.share([f"text {number} {'x' * 1000}"])
    held = budget.size
    assert held > MIB * 2 // 3
    del sharer, going
    gc.collect()
    for number in range(150):  # It is found when room is to be made.
        staying.share([f"other {number} {'x' * 1000}"])
    assert budget.size < held // 2
    text = f"other {140} {'x' * 1000}"
    assert staying.share([text])[0] is not text


def test_what_comes_again_is_shared_still() -> None:
    sharer, drawn = Interner(budget=SharingBudget(MIB)), random.Random(1)
    usual = [Toleration(key="usual", operator="Exists")]
    kept = sharer.share([usual])[0]
    for _ in range(200):
        sharer.share([words(drawn, 200)])
        again = sharer.share([[Toleration(key="usual", operator="Exists")]])[0]
        assert again == kept
    # The one of a moment ago, however often others made room.
    assert sharer.share([[Toleration(key="usual", operator="Exists")]])[0] is again


def annotated(key: str, read: Callable[[Pod], object]) -> Callable[[str], object]:
    name = f"scheduling.koordinator.sh/{key}"
    return lambda text: read(pod("p", annotations={name: text}))


NAMES = (
    "dns_label", "dns_subdomain", "dns_1035_label", "path_segment", "label_key", "label_value",
    "env_name", "config_key", "port_name",
)  # fmt: skip
RESOURCES = ("is_native", "is_extended", "may_be_overcommitted", "faults_of_name")
VALUES = ",".join(f"v{number}" for number in range(1_000))
TEXTS: dict[str, Callable[[str], object]] = {
    **{name: getattr(names, name) for name in NAMES},
    **{name: getattr(resources, name) for name in RESOURCES},
    "time": lambda text: scalars.canonical_time(f"2026-01-01T00:00:00.1{text}Z"),
    "path": lambda text: routes.parse(f"/api/v1/{text}"),
    "accept": lambda text: representations.form(f"application/json,{text}"),
    "selector": lambda text: selectors.labels(f"a in ({text[:4]},{VALUES})"),
    "labels": lambda text: store.shared_labels({f"{text[:4]}-{n}": "x" for n in range(2_000)}),
    "resource-status": annotated(
        "resource-status", recorded_allocation
    ),
    "device-allocated": annotated("device-allocated", read_card_allocations),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_answers_about_long_texts_are_not_remembered(name: str) -> None:
    """Whoever sends one chooses how long it is, and may send as many as there are answers kept."""
    used = []
    for number in range(60):
        if number in (10, 59):
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0] if number > 10 else 0)
            tracemalloc.start()
        with suppress(KoordError, ApiError, ValueError):
            TEXTS[name](f"{number:04d}" + "0" * 40_000)
    tracemalloc.stop()
    assert used[1] < 20 * 40_000
