# SPDX-License-Identifier: Apache-2.0
"""Two versions beside each other lose nothing and do nothing twice: docs/guide-upgrade.md.

Which of them are a stand-in, `tests.deploy.overlap` says.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.installation import need_namespaces, played
from tests.deploy.overlap import COMPONENTS, FORMER, NEXT, SLOTS

ARCHIVE = Path(__file__).parent / "koord-0.1.0.tgz"
pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the story saw."""
    need_namespaces()
    folder = tmp_path_factory.mktemp("overlap")
    return played(folder, ARCHIVE, module="tests.deploy.overlap")


def test_all_pods_are_taken_changed_and_placed(outcome: dict[str, Any]) -> None:
    assert outcome["created"] > 4 * SLOTS
    assert outcome["refused"] == outcome["unchanged"] == outcome["lost"] == []


def test_no_slot_is_given_twice(outcome: dict[str, Any]) -> None:
    """The next scheduler knows what the last one has just given away."""
    assert outcome["most"] == SLOTS
    bound = [each["name"] for each in outcome["writes"] if each["resource"] == "pods/binding"]
    assert len(bound) == len(set(bound))


@pytest.mark.parametrize("component", COMPONENTS)
def test_who_has_led_does_not_write_again(outcome: dict[str, Any], component: str) -> None:
    """The one version, then the other, then the first again, each in a pod of its own."""
    wrote = [each["pod"] for each in outcome["writes"] if each["component"] == component]
    leaders = [pod for pod, _ in groupby(wrote)]
    assert len(leaders) == len(set(leaders)), leaders
    versions = [outcome["images"][pod].rpartition(":")[2] for pod in leaders]
    assert versions == [FORMER, NEXT, FORMER]


def test_what_is_kept_of_a_node_is_made_once(outcome: dict[str, Any]) -> None:
    assert [each.partition("/")[0] for each in outcome["objects"]] == ["nodemetrics", "nodeslos"]
    offers = outcome["offers"]
    assert offers
    assert 0 not in offers, offers


def test_nothing_that_runs_fails(outcome: dict[str, Any]) -> None:
    """And no write is refused, but where another has written meanwhile."""
    assert outcome["restarts"] == []
    refused = [each for each in outcome["writes"] if each["code"] in range(400, 500)]
    assert [each for each in refused if each["code"] != 409] == []
