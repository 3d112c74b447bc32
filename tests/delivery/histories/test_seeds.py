# SPDX-License-Identifier: Apache-2.0
"""Histories of some seeds, and that a message which is wrong on purpose is found."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from unittest import mock

import pytest

from koord.delivery.cri.pod_store import PodStore
from koord.delivery.nri.plugin import NriPlugin
from tests.delivery import histories
from tests.delivery.histories import cri, nri


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("koord").setLevel(logging.ERROR)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_each_edge_holds(seed: int) -> None:
    histories.live(seed, 900)


def test_a_seed_plays_the_same_again(tmp_path: Path) -> None:
    """Calls are counted alike."""

    def calls(folder: str) -> list[int]:
        place = tmp_path / folder
        place.mkdir()
        counted: list[int] = []
        handle = NriPlugin.handle

        async def counting(plugin: NriPlugin, service: str, method: str, payload: bytes) -> bytes:
            counted.append(hash((method, payload)))
            return await handle(plugin, service, method, payload)

        with mock.patch.object(NriPlugin, "handle", counting):
            nri.play(place, random.Random(7), 200)
        return counted

    assert calls("a") == calls("b")


def test_a_store_that_forgets_nothing_is_found(tmp_path: Path) -> None:
    with (
        mock.patch.object(PodStore, "remove_container"),
        pytest.raises(AssertionError),
    ):
        cri.play(tmp_path, random.Random(1), 300)


def test_a_plugin_that_does_not_answer_is_found(tmp_path: Path) -> None:
    async def never(plugin: NriPlugin, service: str, method: str, payload: bytes) -> bytes:
        raise OSError("no answer at all")

    with mock.patch.object(NriPlugin, "handle", never), pytest.raises(AssertionError):
        nri.play(tmp_path, random.Random(1), 300)
