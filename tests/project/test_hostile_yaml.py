# SPDX-License-Identifier: Apache-2.0
"""Small YAML texts that would fill memory or stack, at every entry point that reads YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from koord.api import load_manifests, read_manifests
from koord.base.config import load
from koord.base.documents import MAX_DEPTH, MAX_VALUES, parse_documents
from koord.cli.commands.resctrl.slo_config import enabled_classes
from koord.simulator import quota_what_if
from tests.outcomes import refusal

ENTRIES: dict[str, Callable[[Path], object]] = {
    "manifest text": lambda path: load_manifests(path.read_text("utf-8"), str(path)),
    "manifest file": read_manifests,
    "configuration": lambda path: load({}, path),
    "koord quota": lambda path: quota_what_if.read_manifests(str(path), path.read_text("utf-8")),
    "koord resctrl": lambda path: enabled_classes(str(path)),
}


def grown(line: str, *, times: int = 10, lines: int = 12) -> str:
    """Lines that each hold the one before so many times."""
    values = [line.format(", ".join([f"*a{i}"] * times)) for i in range(lines)]
    return "\n".join(["a0: &a0 {k: v}", *(f"a{i}: &a{i} {v}" for i, v in enumerate(values, 1))])


DEEP, LONG = f"at most {MAX_DEPTH} levels", f"at most {MAX_VALUES:,} values"
HOSTILE = {
    "nested lists": ("[" * 100_000, DEEP),
    "nested lists that end": ("[" * 50_000 + "]" * 50_000, DEEP),
    "nested JSON": ('{"a":' * 500 + "1" + "}" * 500, DEEP),
    "nested mappings": ("{a: " * 100_000, DEEP),
    "nested by indentation": ("- " * 5_000 + "x", DEEP),
    "nested by aliases": (grown("[{}]", times=1, lines=200), DEEP),
    "billion laughs": (grown("[{}]"), LONG),
    "billion merges": (grown("{{<<: [{}]}}"), LONG),
    "laughs over documents": ("\n---\n".join([grown("{{<<: [{}]}}", lines=5)] * 20), LONG),
    "a list of itself": ("&a [" + "*a, " * 1000 + "]", "does not contain it"),
    "a mapping merged into itself": ("&a {<<: *a}", "does not contain it"),
}  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("case", HOSTILE)
def test_every_entry_point_refuses_it_in_one_line(tmp_path: Path, entry: str, case: str) -> None:
    text, expected = HOSTILE[case]
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    said = refusal(ENTRIES[entry], path)
    assert said.startswith(str(path))
    assert expected in said


@pytest.mark.parametrize(
    "text",
    ["!!timestamp x", "!!int ''", "!!bool x", "!!float 1" + ":1" * 200 + ".5", "? [a]\n: b", "\x00",
     "&a [&a b, *a]", "*a", "!!set {a}", "!!binary eA==", "!!omap [a: 1]", "{1: 2}", "[.inf"],
)  # fmt: skip
def test_odd_yaml_is_refused_in_one_line(text: str) -> None:
    assert refusal(parse_documents, text, "odd").startswith("odd: ")


def test_what_is_within_the_bounds_is_read() -> None:
    assert parse_documents("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n", "m") == [
        {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}
    ]
    assert parse_documents("---\n--- 2024-01-01\n---\n[x]\n", "m") == ["2024-01-01", ["x"]]
    # JSON that YAML would read otherwise: tabs, an exponent without a point, a surrogate pair.
    assert parse_documents('{\t"a":\t1e3, "b": "\\ud83d\\ude00"}', "m") == [{"a": 1000, "b": "😀"}]
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_documents(deepest, "m")
    assert parse_documents(f"--- {deepest}", "m")
