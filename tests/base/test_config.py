# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.config import load
from koord.base.errors import KoordError
from tests.outcomes import refusal


class Profile(msgspec.Struct, rename="camel"):
    scheduler_name: str
    weights: dict[str, int] = {}


class Configuration(msgspec.Struct, rename="camel"):
    parallelism: Annotated[int, msgspec.Meta(ge=1)] = 16
    profiles: list[Profile] = []
    leader: Profile | None = None
    by_zone: dict[str, list[Profile]] = {}


KINDS = {("koord/v1", "SchedulerConfiguration"): Configuration}
HEAD = "apiVersion: koord/v1\nkind: SchedulerConfiguration\n"


def _load(tmp_path: Path, text: str | bytes) -> Configuration:
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(KINDS, path)


def test_a_configuration_is_typed(tmp_path: Path) -> None:
    got = _load(tmp_path, HEAD + "profiles: [{schedulerName: koord, weights: {fit: 2}}]\n")
    assert got == Configuration(profiles=[Profile("koord", {"fit": 2})])


def test_unknown_keys_are_found_in_maps_of_lists(tmp_path: Path) -> None:
    told = refusal(_load, tmp_path, HEAD + "byZone: {a: [{schedulerName: b, weigths: {}}]}\n")
    assert told.endswith("byZone.\"a\"[0]: got 'weigths', expected a known field, such as weights")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "paralelism: 4",
         "document: got 'paralelism', expected a known field, such as parallelism"),
        (HEAD + "profiles: [{schedulername: x}]",
         "profiles[0]: got 'schedulername', expected a known field, such as schedulerName"),
        (HEAD + "profiles: [{schedulerName: x, zz: 1}]",
         "profiles[0]: got 'zz', expected one of schedulerName, weights"),
        (HEAD + "leader: {schedulerNam: x}",
         "leader: got 'schedulerNam', expected a known field, such as schedulerName"),
        (HEAD + "parallelism: many", "parallelism: got 'many', expected `int`"),
        (HEAD + "parallelism: 0", "parallelism: got 0, expected `int` >= 1"),
        (HEAD + "profiles: [{schedulerName: 3}]",
         "profiles[0].schedulerName: got 3, expected `str`"),
        ("kind: X",
         "apiVersion, kind: got 'None X', expected one of koord/v1 SchedulerConfiguration"),
        (HEAD + "---\n" + HEAD, "got '2 documents', expected one document"),
        ("", "got None, expected a mapping with apiVersion and kind"),
        ("- 1", "got [1], expected a mapping with apiVersion and kind"),
        ("a: b: c",
         "line 1: got 'mapping values are not allowed in this context', expected YAML or JSON"),
        (b"\xff\xfe\x00", "got 'bytes that are no UTF-8', expected UTF-8 text"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_one_line(tmp_path: Path, text: str | bytes, line: str) -> None:
    with pytest.raises(KoordError) as caught:
        _load(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'config.yaml'}: {line}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KoordError, match=r"none.yaml.*something readable \(No such file"):
        load(KINDS, tmp_path / "none.yaml")


@given(st.binary(max_size=60))
def test_random_bytes_end_as_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(HEAD.encode() + data)
    refusal(load, KINDS, path)
