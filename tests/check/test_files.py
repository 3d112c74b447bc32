# SPDX-License-Identifier: Apache-2.0
"""Files that hold no objects, or more than one would think; lines in YAML and JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType

import pytest

import koord.api
from koord.base.errors import KoordError
from koord.check import api_validation, file_reader
from koord.check.runner import check

from .conftest import Lines

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"

BOMB = "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}' if before else '1'] * 10)}]"
    for before, name in zip(["", *"abcdef"], "abcdefg", strict=True)
)

TEXTS = {
    "": ["1: warning: got nothing, expected at least one object"],
    "---\n---\n# nothing\n": ["1: warning: got nothing, expected at least one object"],
    "just text\n": ["1: error: got 'just text', expected a mapping with apiVersion and kind"],
    "- 1\n": ["1: error: got [1], expected a mapping with apiVersion and kind"],
    "a: [1, 2\nb: 3\n": [
        """2: error: got "did not find expected ',' or ']'", expected YAML or JSON"""
    ],
    '{"kind": "Pod",\n "metadata": {"name": "x"\n}': [
        """3: error: got "did not find expected ',' or '}'", expected YAML or JSON"""
    ],
    "a: b: c\n": [
        "1: error: got 'mapping values are not allowed in this context', expected YAML or JSON"
    ],
    "1: x\n": ["1: error: got 1, expected text as the key of a mapping"],
    "[" * 5000: [
        "1: error: got 'a document nested deeper', expected at most 100 levels of nesting"
    ],
    BOMB: [
        "6: error: got 'a longer document', expected at most 1,000,000 values, aliases followed"
    ],
    "kind: Pod\n": [
        "1: error: Pod: apiVersion: got nothing, expected the name of an API version and a kind"
    ],
    "apiVersion: v1\nkind: 5\n": [
        "2: error: kind: got 5, expected the name of an API version and a kind"
    ],
    "apiVersion: v1\nkind: Pod\nmetadata: 5\n": [
        "3: error: Pod: metadata: got 5, expected an object"
    ],
    POD.replace("kind: Pod", "kind: Node\nkind: Pod"): [
        "3: error: Pod p: got 'kind', expected every key once in a mapping; the last one counts"
    ],
    POD.replace("name: c,", "name: b, name: c,"): [
        "4: error: Pod p: got 'name', expected every key once in a mapping; the last one counts"
    ],
    "apiVersion: v1\nkind: List\nitems:\n- 5\n- "
    + POD.replace("\n", "\n  ").replace("image: i", "imag: i"): [
        "4: error: got 5, expected a mapping with apiVersion and kind",
        "8: error: Pod p: spec.containers[0].imag: got 'imag', "
        "expected a known field, such as image",
        "8: error: Pod p: spec.containers[0].image: got nothing, expected a value",
    ],
    POD.replace("\n", "\r\n").replace("image: i", "image: 5"): [
        "4: error: Pod p: spec.containers[0].image: got 5, expected text"
    ],
    "\ufeff" + POD: [],
    POD + "---\n---\n" + POD.replace("name: p", "name: q").replace("image: i", "image: 5"): [
        "10: error: Pod q: spec.containers[0].image: got 5, expected text"
    ],
    "x: &c {name: c, image: 5}\n" + POD.replace("{name: c, image: i}", "*c"): [
        "1: error: Pod p: spec.containers[0].image: got 5, expected text",
        "1: error: Pod p: x: got 'x', expected one of apiVersion, kind, metadata, spec, status",
    ],
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.items(), ids=range(len(TEXTS)))
def test_texts(lines: Lines, text: str, expected: list[str]) -> None:
    assert lines(text) == expected


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(b"\x7fELF\x00\xff\xfe")
    assert [str(each) for each in check([str(path)]).problems] == [
        f"{path}:1: error: got 'bytes that are no UTF-8', expected UTF-8 text"
    ]


def test_lines_of_json(lines: Lines) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"koordinator.sh/qosClass": "LSX"}},
        "spec": {"containers": [{"name": "c", "image": "\U0001f600"}, {"name": "d", "imag": "i"}]},
    }
    text = json.dumps(document, indent=2)
    assert text.splitlines()[6] == '      "koordinator.sh/qosClass": "LSX"'
    assert text.splitlines()[17] == '        "imag": "i"'
    assert lines(text) == [
        "7: error: Pod p: metadata.labels[koordinator.sh/qosClass]: got 'LSX', "
        "expected LSE, LSR, LS, BE or SYSTEM",
        "16: error: Pod p: spec.containers[1].image: got nothing, expected a value",
        "18: error: Pod p: spec.containers[1].imag: got 'imag', "
        "expected a known field, such as image",
    ]
    assert lines(text.replace('"kind"', '"kind": "Pod",\n"kind"'))[0] == (
        "4: error: Pod p: got 'kind', expected every key once in a mapping; the last one counts"
    )
    # Tabs, which YAML has not.
    assert lines(json.dumps(document, indent="\t"))[0].startswith("7: error: Pod p: metadata")


def test_many_problems_of_one_object_are_cut(lines: Lines) -> None:
    labels = "".join(f"    node.koordinator.sh/x{number}: y\n" for number in range(1000))
    text = POD.replace("metadata: {name: p}", f"metadata:\n  name: p\n  labels:\n{labels}")
    assert len(lines(text)) == 100


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("large").write_bytes(b"#" * (file_reader.MOST_BYTES + 1))
    for name, told in {
        "folder": "FILE: got 'folder', expected a file, such as those of DIRECTORY/*.yaml",
        "missing": "FILE: got 'missing', expected a file that can be read "
        "(No such file or directory)",
        "large": "large: got 'a larger file', expected at most 4,194,304 bytes",
        "": "FILE: got '', expected the name of a file",
        "a\0b": "FILE: got 'a\\x00b', expected the name of a file",
    }.items():
        with pytest.raises(KoordError) as caught:
            check([name])
        assert str(caught.value) == told.replace("\\\\", "\\")


@pytest.mark.skipif(not Path(os.devnull).exists(), reason="no devices here")
def test_a_file_without_an_end() -> None:
    with pytest.raises(KoordError, match="a larger file"):
        check(["/dev/zero"])


def test_definitions_are_found_where_somebody_opened_their_folder_as_a_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``importlib.resources.files("koord.api.crds")`` puts the folder where the function was."""
    monkeypatch.setattr(koord.api, "crds", ModuleType("koord.api.crds"))
    found = api_validation.catalog.__wrapped__()
    assert found.of_kind("slo.koordinator.sh/v1alpha1", "NodeMetric") is not None
