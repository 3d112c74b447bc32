# SPDX-License-Identifier: Apache-2.0
"""Patches that make much of little."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.controlplane.patching import MAX_COPIED_BYTES, json_patches
from koord.controlplane.storage.store import OBJECT_LIMIT_BYTES
from tests.hostile.served import (
    APPLY_PATCH,
    CONFIGS,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Document,
    Target,
    attack,
    config_map,
    encoded,
    said,
)


def doubling(count: int, *, spelled: str = "copy") -> list[Document]:
    """Operations of which each copies all that is there into itself."""
    first = {"op": "add", "path": "/data/a", "value": {"x": "y"}}
    return [
        first,
        *({"op": spelled, "from": "/data", "path": f"/data/c{number}"} for number in range(count)),
    ]


@pytest.mark.parametrize("count", [21, 40])
def test_copies_of_copies_end_at_their_limit(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    async def test(target: Target) -> None:
        await target.ask("POST", CONFIGS, config_map("a"))
        answer = await target.ask("PATCH", f"{CONFIGS}/a", doubling(count), JSON_PATCH)
        assert answer.status == 422
        assert said(answer).endswith(f"bytes, at most {MAX_COPIED_BYTES} are allowed")
        found = json.loads((await target.ask("GET", f"{CONFIGS}/a")).body)
        assert found["data"] == {}

    def counted(document: Any, operation: Document) -> bytes:
        made.append(0)
        return source_text(document, operation)

    source_text = json_patches._source_text
    monkeypatch.setattr(json_patches, "_source_text", counted)
    attack(test)
    # What is copied doubles: the limit is reached after as many steps as it has bits, not later.
    assert len(made) <= MAX_COPIED_BYTES.bit_length()


@pytest.mark.parametrize("size", [MAX_COPIED_BYTES // 2, MAX_COPIED_BYTES // 2 - 2])
def test_copied_bytes_are_counted_as_json(size: int) -> None:
    """Two copies of a text that is, with its quotes, half of the limit or a byte more."""
    text = "x" * (size - 1)
    operations = [
        {"op": "copy", "from": "/data/a", "path": "/data/b"},
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
        {"op": "remove", "path": "/data/b"},
        {"op": "remove", "path": "/data/c"},
    ]
    document = {"data": {"a": text}}
    if size + 1 > MAX_COPIED_BYTES // 2:
        with pytest.raises(Exception, match=f"take {2 * (size + 1)} bytes"):
            json_patches.json_patch(document, encoded(operations))
    else:
        assert json_patches.json_patch(document, encoded(operations)) == document


def test_what_a_patch_makes_is_bounded_before_it_is_checked() -> None:
    """With values that no schema takes: the size is told, not the type."""
    half = "x" * (OBJECT_LIMIT_BYTES // 2)
    wrong = {"data": {"a": 1, "b": half, "c": half}}
    add = [{"op": "add", "path": f"/data/{key}", "value": value}
           for key, value in wrong["data"].items()]  # fmt: skip
    applied = config_map("b", {"b": half, "c": half})

    async def test(target: Target) -> None:
        await target.ask("POST", CONFIGS, config_map("a"))
        for content, body in (
            (MERGE_PATCH, wrong),
            (STRATEGIC_PATCH, wrong),
            (JSON_PATCH, add),
        ):
            answer = await target.ask("PATCH", f"{CONFIGS}/a", body, content)
            assert answer.status == 413, (content, answer.body[:300])
            assert 'ConfigMap "a" would take' in said(answer)
        answer = await target.ask(
            "PATCH", f"{CONFIGS}/b", applied, APPLY_PATCH, fieldManager="someone"
        )
        assert answer.status == 413

    attack(test)


def test_managed_fields_count_for_the_limit_of_an_object() -> None:
    """Each manager doubles what an object of small fields takes."""
    body = config_map("a", {f"key-{number:06d}": "" for number in range(20_000)})

    async def test(target: Target) -> None:
        statuses = []
        for manager in "abcd":
            answer = await target.ask(
                "PATCH", f"{CONFIGS}/a", body, APPLY_PATCH, fieldManager=manager
            )
            statuses.append(answer.status)
            found = await target.ask("GET", f"{CONFIGS}/a")
            assert len(found.body) <= OBJECT_LIMIT_BYTES
        assert statuses == [201, 200, 200, 413]
        assert "managed fields included" in said(answer)
        gone = await target.ask("DELETE", f"{CONFIGS}/a")
        assert gone.status == 200

    attack(test)


def test_an_apply_of_thousands_of_fields_leaves_room_for_others() -> None:
    body = config_map("a", {f"key-{number:06d}": "" for number in range(20_000)})

    async def test(target: Target) -> None:
        for manager in "ab":
            answer, others = await target.others_asked(
                target.ask("PATCH", f"{CONFIGS}/a", body, APPLY_PATCH, fieldManager=manager)
            )
            assert answer.status < 300
            assert others >= 1

    attack(test)


def test_two_large_patches_of_one_object_at_a_time_both_count() -> None:
    """Others may write while one is worked out: it is worked out again of what they have made."""
    body = config_map("a", {f"key-{number:06d}": "" for number in range(5_000)})

    async def test(target: Target) -> None:
        await target.ask("POST", CONFIGS, body)
        patches = [
            target.ask("PATCH", f"{CONFIGS}/a", {"data": {f"new-{number}": "x"}}, MERGE_PATCH)
            for number in range(5)
        ]
        answers = await asyncio.gather(*patches)
        assert {answer.status for answer in answers} == {200}
        found = json.loads((await target.ask("GET", f"{CONFIGS}/a")).body)
        assert {f"new-{number}" for number in range(5)} <= found["data"].keys()

    attack(test)
