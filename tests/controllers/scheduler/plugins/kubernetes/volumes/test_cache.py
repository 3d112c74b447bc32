# SPDX-License-Identifier: Apache-2.0
"""Free volumes and those that are promised, after any changes, against a look at all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.storage import PersistentVolume
from koord.controllers.scheduler.plugins.kubernetes.volumes.cache import volume_cache_of
from koord.kernels.quantity import Quantity
from tests.controllers.scheduler.plugins.kubernetes.volumes.storage import Storage
from tests.controllers.scheduler.pods import node

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "put", "remove", "promise", "give up")),
        st.sampled_from(("v0", "v1", "v2")),
        st.integers(1, 3),
        st.sampled_from(("x", "y")),
        st.sampled_from(("Available", "Available", "Bound")),
        st.sampled_from(("", "", "c", "other")),
    ),
    max_size=12,
)


@given(steps=_STEPS)
def test_who_is_free(steps: list[Any]) -> None:
    storage = Storage(node("a"))
    store = volume_cache_of(storage.world)
    claim = storage.claim("c")
    promised: set[str] = set()
    there: dict[str, tuple[int, str, str, str]] = {}
    for what, name, size, cls, phase, owner in steps:
        if what == "put":
            reference = {"claimRef": {"namespace": "default", "name": owner}} if owner else {}
            storage.volume(name, str(size), cls, phase=phase, **reference)
            there[name] = (size, cls, phase, owner)
            promised.discard(name)
        elif what == "remove":
            storage.views.view(PersistentVolume).remove(name)
            there.pop(name, None)
            promised.discard(name)
        elif what == "promise" and name in there:
            store.assume_volume(name, claim)
            promised.add(name)
        elif what == "give up":
            store.revert([name], [])
            promised.discard(name)
        # The claim may come anew from the API, with the same uid.
        now = storage.claim("c")
        own = [n for n in sorted(there) if n in promised or there[n][3] == "c"]
        assert [v.metadata.name for v in store.own("default/c", now)] == own
        for wanted in ("x", "y"):
            free = sorted(
                (size, n)
                for n, (size, cls, phase, owner) in there.items()
                if cls == wanted and phase == "Available" and not owner and n not in promised
            )
            for least in (0, 2):
                names = [n for size, n in free if size >= least]
                found = store.free(wanted, Quantity.parse(least))
                assert [v.metadata.name for v in found] == names
