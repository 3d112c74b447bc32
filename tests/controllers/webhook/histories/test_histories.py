# SPDX-License-Identifier: Apache-2.0
"""Admission through two replicas that are late, cut off, killed and started again.

``make soak`` plays many more (``tests/soak/subjects.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from koord.controllers.cluster.colocation_profiles import effect
from koord.controllers.webhook.certificates import certificate_keeper
from koord.controllers.webhook.elasticquotas import parent_writer
from koord.controllers.webhook.pods.mutation import resource_translation
from koord.controllers.webhook.profiles import application
from koord.controllers.webhook.quota_admission import charge_batch, quota_writer
from koord.kube.patches import Patch
from tests.controllers.webhook.histories.world import live

STEPS = 40
Mutant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", [1, 2])
def test_what_holds_of_admission_holds(seed: int) -> None:
    live(seed, STEPS)


class _Unconditional:
    """Patches without the version that was judged."""

    @staticmethod
    def merge(change: dict[str, Any]) -> Patch:
        meta = {k: v for k, v in change["metadata"].items() if k != "resourceVersion"}
        return Patch.merge({**change, "metadata": meta})


def _parents_unconditionally(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parent_writer, "Patch", _Unconditional)


def _charges_unconditionally(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quota_writer, "Patch", _Unconditional)


def _charges_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A write whose answer is lost is not known again."""
    patch.setattr(charge_batch, "charges", lambda quota: [])


def _without_patches(patch: pytest.MonkeyPatch) -> None:
    """A profile's patch is left out, the rest is done."""
    patch.setattr(application, "strategic_merge", lambda document, change, shape: document)


def _without_translation(patch: pytest.MonkeyPatch) -> None:
    """A pod of the batch class keeps its native amounts."""
    patch.setattr(resource_translation, "translate", lambda *_: [])


def _suffixes_again(patch: pytest.MonkeyPatch) -> None:
    """A suffix is added to one that is there."""
    real = effect.labels_after

    def labels_after(spec: Any, old: Any) -> Any:
        found = real(spec, old)
        return {k: v + spec.label_suffixes.get(k, "") for k, v in found.items()}

    patch.setattr(effect, "labels_after", labels_after)


def _certificates_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(certificate_keeper, "TRUSTED_FOR_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("mutant", "first"),
    [
        (_parents_unconditionally, 2),
        (_charges_unconditionally, 5),
        (_charges_forgotten, 15),
        (_without_patches, 1),
        (_without_translation, 2),
        (_suffixes_again, 1),
        (_certificates_at_once, 0),
    ],
)
def test_histories_find_what_is_wrong(
    mutant: Mutant, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first history finds it today; any of some does."""
    mutant(monkeypatch)
    for seed in range(first, first + 12):
        try:
            live(seed, STEPS)
        except AssertionError:
            return
    pytest.fail("nothing was found")
