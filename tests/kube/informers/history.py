# SPDX-License-Identifier: Apache-2.0
"""Writes down what an informer's handlers are told, and checks it as it comes."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.meta import Object
from koord.kube.informers.informer import Informer


class History:
    """What the handlers of one informer were told; a call that breaks a promise fails at once.

    Attributes:
        state: key to (uid, version), as the calls add up.
        told: (what, key, version) of each call.
        unknown: deletions whose final state was missed.
    """

    def __init__(self) -> None:
        self.state: dict[str, tuple[str, int]] = {}
        self.told: list[tuple[str, str, int]] = []
        self.unknown = 0
        self.broken: list[str] = []

    def follow(self, informer: Informer[Any]) -> None:
        informer.on_change(self.added, self.updated, self.deleted)

    def added(self, value: Object) -> None:
        key, uid, version = _identity(value)
        self._expect(key not in self.state, f"{key} added twice")
        self.state[key] = (uid, version)
        self.told.append(("added", key, version))

    def updated(self, old: Object, new: Object) -> None:
        key, uid, version = _identity(new)
        _, old_uid, old_version = _identity(old)
        self._expect(self.state.get(key) == (old_uid, old_version), f"{key} was not as told")
        self._expect(uid == old_uid, f"{key} updated from one life to another")
        self._expect(version > old_version, f"{key} went from {old_version} to {version}")
        self.state[key] = (uid, version)
        self.told.append(("updated", key, version))

    def deleted(self, last: Object, final_state_unknown: bool) -> None:
        key, uid, version = _identity(last)
        had = self.state.pop(key, ("", 0))
        self._expect(had[0] == uid, f"{key} deleted in another life")
        self._expect(version >= had[1], f"{key} deleted before its time")
        self.unknown += final_state_unknown
        self.told.append(("deleted", key, version))

    def check(self, informer: Informer[Any], true: dict[str, tuple[str, int]]) -> None:
        """No promise was broken, and calls and cache add up to what the server has."""
        assert self.broken == []
        assert self.state == true
        assert {key: _identity(value)[1:] for key, value in informer.items()} == true

    def _expect(self, promise: bool, broken: str) -> None:
        # Written down and not raised: an informer survives what its handlers raise.
        if not promise:
            self.broken.append(broken)


def _identity(value: Object) -> tuple[str, str, int]:
    meta = value.metadata
    return f"{meta.namespace}/{meta.name}", meta.uid, int(meta.resource_version)
