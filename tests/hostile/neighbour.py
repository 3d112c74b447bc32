# SPDX-License-Identifier: Apache-2.0
"""A tenant who does nothing wrong, and how long everything takes for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.contract.api import Api, Document, at
from tests.hostile.attacks import SCHEDULER
from tests.hostile.places import Place, delay_seconds

NAMESPACE = "alice"
PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.004
_KEPT = 3
_OWN_DELAYS = "/proc/thread-self/schedstat"


@dataclass
class Waits:
    """Seconds that one span of time was long for the neighbour.

    Attributes:
        bindings: from create to binding, a pod each.
        waits: the same without what other programs of the machine took: for as long as the
            scheduler's main thread, or this one, could have run and had no core.
        answers: of the API server, a GET each; without the same.
        work: CPU seconds that the scheduler's program took from create to binding, a pod each.
        bare: as ``waits``, of pods that this client binds itself: what the API server alone takes.
    """

    bindings: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    def add(self, other: Waits) -> None:
        """Another span counts too."""
        self.bindings += other.bindings
        self.waits += other.waits
        self.answers += other.answers
        self.work += other.work
        self.bare += other.bare


def p99(values: list[float]) -> float:
    """The largest but one in a hundred."""
    assert values
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


class Neighbour(threading.Thread):
    """Creates pods one after the other, waits for each, deletes it; some stay.

    Args:
        api: a connection of its own, of who has the namespace, which is there.
        place: the cluster.
        binds: it binds a pod of its own after each, too; see :attr:`Waits.bare`.

    Attributes:
        error: what ended it, if not :meth:`stop`.
        kept: pods that stay and must stay bound where they are.
    """

    def __init__(self, api: Api, place: Place, *, binds: bool = False) -> None:
        super().__init__(daemon=True)
        self._binds = binds
        self._api = api
        self._place = place
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._waits = Waits()
        self.error: Exception | None = None
        self.kept: dict[str, str] = {}

    def run(self) -> None:
        """See :class:`threading.Thread`."""
        number = 0
        try:
            while not self._ending.is_set():
                number += 1
                self._one(f"web-{number}")
                if self._binds:
                    self._bound_by_itself(f"bare-{number}")
        except Exception as error:
            self.error = error

    def span(self, wait: Callable[[], object]) -> Waits:
        """What it is like until ``wait`` returns."""
        self._taken()
        wait()
        assert self.error is None, self.error
        return self._taken()

    def stop(self) -> None:
        """Ends it; raises what ended it before."""
        self._ending.set()
        self.join(PATIENCE_SECONDS)
        assert self.error is None, self.error

    def check_kept(self) -> None:
        """Those that stayed are where they were. Ends the connection."""
        for name, node in self.kept.items():
            assert self._api.get(at("pods", NAMESPACE, name)).ok["spec"]["nodeName"] == node
        self._api.close()

    def _one(self, name: str) -> None:
        began, used, kept = time.monotonic(), self._place.cpu_seconds(), self._delays()
        answer = self._api.post(at("pods", NAMESPACE), _pod(name))
        assert answer.code == 201, answer.text
        while True:
            asked, before = time.monotonic(), self._delays()
            node = self._api.get(at("pods", NAMESPACE, name)).ok["spec"].get("nodeName")
            now, after = time.monotonic(), self._delays()
            with self._lock:
                self._waits.answers.append(now - asked - _delay(before, after))
                if node:
                    self._waits.bindings.append(now - began)
                    self._waits.waits.append(now - began - _delay(kept, after))
                    self._waits.work.append(self._place.cpu_seconds() - used)
            if node:
                break
            assert now - began < PATIENCE_SECONDS, f"{name} is not bound after {now - began:.0f} s"
            time.sleep(_POLL_SECONDS)
        if len(self.kept) < _KEPT:
            self.kept[name] = node
        else:
            self._api.delete(at("pods", NAMESPACE, name), {"gracePeriodSeconds": 0})

    def _bound_by_itself(self, name: str) -> None:
        """As :meth:`_one`, with no scheduler: what it waits is the API server's alone."""
        path = at("pods", NAMESPACE, name)
        target = {"apiVersion": "v1", "kind": "Node", "name": "machine-0"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        pod = _pod(name)
        pod["spec"]["schedulerName"] = "nobody"
        began, kept = time.monotonic(), delay_seconds(_OWN_DELAYS)
        assert self._api.post(at("pods", NAMESPACE), pod).code == 201
        answer = self._api.post(f"{path}/binding", body)
        assert answer.code == 201, answer.text
        assert self._api.get(path).ok["spec"]["nodeName"] == "machine-0"
        waited = time.monotonic() - began - (delay_seconds(_OWN_DELAYS) - kept)
        with self._lock:
            self._waits.bare.append(waited)
        self._api.delete(path, {"gracePeriodSeconds": 0})

    def _delays(self) -> tuple[float, float]:
        return self._place.delay_seconds(), delay_seconds(_OWN_DELAYS)

    def _taken(self) -> Waits:
        with self._lock:
            waits, self._waits = self._waits, Waits()
        return waits


def _delay(before: tuple[float, float], after: tuple[float, float]) -> float:
    """The longer of two waits for a core: they may have been at the same time."""
    return max(now - then for then, now in zip(before, after, strict=True))


def _pod(name: str) -> Document:
    requests = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    spec = {"schedulerName": SCHEDULER, "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": spec,
    }
