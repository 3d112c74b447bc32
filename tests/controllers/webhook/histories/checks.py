# SPDX-License-Identifier: Apache-2.0
"""What holds of stored objects at any time, and at the end: plain sums over documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from koord.controlplane.admission.webhooks import MUTATING
from koord.controlplane.storage.store import Store
from koord.kernels.quantity import Quantity
from tests.controllers.webhook.histories.tenants import LEAVES, MARK, PREFIX, PROFILES, Tenants

if TYPE_CHECKING:
    from tests.controllers.webhook.histories.replica import ReplicaCaller

Document = dict[str, Any]
QUOTAS = "elasticquotas.scheduling.sigs.k8s.io"
_BATCH = "kubernetes.io/batch-"


def check_now(store: Store, caller: ReplicaCaller, tenants: Tenants) -> None:
    """What holds between any two writes."""
    quotas = {each["metadata"]["name"]: each for each in documents(store, QUOTAS)}
    check_minimums(quotas)
    for pod in documents(store, "pods"):
        check_whole(pod, tenants.versions)
    assert caller.changed_again == [], caller.changed_again
    assert caller.distrusted == [], caller.distrusted
    for name, quota in quotas.items():
        if name in LEAVES:
            assert _used(quota) <= _cpu(quota["spec"]["max"]), quota


class Ledger:
    """Follows what quotas say is used, write by write.

    Args:
        store: whose writes it sees from now on.
        configured: gets each mutating webhook configuration.
    """

    def __init__(self, store: Store, configured: Callable[[Document], None]) -> None:
        self._configured = configured
        self.charged: Counter[str] = Counter()
        self._last: dict[tuple[str, str], int] = {}
        self._put = store.put
        store.put = self._seen  # type: ignore[method-assign]

    def _seen(self, storage: str, document: Document, *more: Any) -> Any:
        if storage == QUOTAS:
            meta = document["metadata"]
            key, used = (meta["name"], meta["uid"]), _used(document)
            self.charged[meta["name"]] += used - self._last.get(key, 0)
            self._last[key] = used
        elif storage == MUTATING:
            self._configured(document)
        return self._put(storage, document, *more)


def check_charges(ledger: Ledger, caller: ReplicaCaller) -> None:
    """Every pod that was admitted is charged once, and nobody else; who got no answer may be."""
    for name in LEAVES:
        pods = [each for each in caller.reviewed if each.quota == name]
        least = sum(charge_of(each.pod) for each in pods if each.allowed and each.known)
        most = sum(charge_of(each.pod) for each in pods if each.allowed is not False)
        assert least <= ledger.charged[name] <= most, (name, least, ledger.charged[name], most)


def check_counted(store: Store) -> None:
    """After the scheduler has counted anew, what is used is the sum of pods."""
    pods = documents(store, "pods")
    for quota in documents(store, QUOTAS):
        name = quota["metadata"]["name"]
        if name in LEAVES:
            own = [each for each in pods if _label(each, "name") == name]
            together = sum(map(charge_of, own))
            assert _used(quota) == together, (name, _used(quota), together)


def check_minimums(quotas: dict[str, Document]) -> None:
    """In every tree the children's minimums are at most their parent's; trees stay apart."""
    for name, parent in quotas.items():
        children = [each for each in quotas.values() if _label(each, "parent") == name]
        together = sum(_cpu(each["spec"]["min"]) for each in children)
        assert together <= _cpu(parent["spec"]["min"]), (name, together, parent["spec"])
        for each in children:
            assert _label(each, "tree-id") == _label(parent, "tree-id"), each


def check_whole(pod: Document, versions: dict[str, set[str]]) -> None:
    """Of each profile a pod has all or nothing, of one version; likewise of its class."""
    meta, spec = pod["metadata"], pod["spec"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    chosen = spec.get("nodeSelector") or {}
    for name in PROFILES:
        key = f"{MARK}{name}"
        marks = {labels.get(key), notes.get(key), chosen.get(key)}
        assert len(marks) == 1, pod
        assert marks <= {None, *versions[name]}, (meta["name"], name, marks)
    joined = f"{MARK}p0" in labels
    named = [
        labels.get("koordinator.sh/qosClass") == "BE",
        "koordinator.sh/priority" in labels,
        spec.get("priorityClassName") == "koord-batch",
        spec.get("priority") == 5000,
        spec.get("schedulerName") == "koord-scheduler",
    ]
    asked = spec["containers"][0].get("resources", {}).get("requests") or {}
    if asked:
        named += [f"{_BATCH}cpu" in asked, f"{_BATCH}memory" in asked, "cpu" not in asked]
        named.append("node.koordinator.sh/extended-resource-spec" in notes)
    assert set(named) == {joined}, (meta["name"], joined, named)


def charge_of(pod: Document) -> int:
    """What a pod costs its quota, in milli-cores: batch resources are none that quotas name."""
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests") or {}
    return _cpu(requests)


def documents(store: Store, storage: str) -> list[Document]:
    """All objects of a storage."""
    entries = store.collection(storage).entries.values()
    return [json.loads(entry.body) for entry in entries]


def _used(quota: Document) -> int:
    notes = quota["metadata"].get("annotations") or {}
    return _cpu(json.loads(notes.get(f"{PREFIX}child-request", "{}")))


def _cpu(amounts: Document) -> int:
    return Quantity.parse(str(amounts.get("cpu", 0))).milli()


def _label(quota: Document, word: str) -> str:
    return str((quota["metadata"].get("labels") or {}).get(PREFIX + word, ""))
