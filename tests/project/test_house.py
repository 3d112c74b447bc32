# SPDX-License-Identifier: Apache-2.0
"""The checks of names and imports find what they are made for; the sources keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.project.house import allowed as allowed_list
from tests.project.house.__main__ import LIST, ROOT
from tests.project.house.banned_words import banned_word
from tests.project.house.checks import check, violations_by_check

if TYPE_CHECKING:
    from pathlib import Path

LONG = "#\n" * 40


def keys(root: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """The violations of a tree, by check."""
    for name, text in files.items():
        path = root / "src/koord" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {
        name: [violation.key for violation in violations]
        for name, violations in violations_by_check(root / "src", "koord").items()
    }


def test_circles_go_through_functions_type_checking_and_relative_imports(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "from koord.p import b\n",
        "p/b.py": "def f():\n    from koord.p.c import C\n",
        "p/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x\n",
        "p/d.py": "from koord.p import a\nimport koord.p.c\n",
        "p/e.py": "from . import f\n",
        "p/f.py": "from ..p import e\n",
    }
    assert keys(tmp_path, files)["import_circles"] == [
        "koord.p.a -> koord.p.b",
        "koord.p.b -> koord.p.c",
        "koord.p.c -> koord.p.a",
        "koord.p.e -> koord.p.f",
        "koord.p.f -> koord.p.e",
    ]


def test_a_package_and_a_module_that_take_from_each_other_are_a_circle(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "from koord.p.a import A\nB = 1\n",
        "p/a.py": "from koord.p import B\nA = B\n",
    }
    assert keys(tmp_path, files)["import_circles"] == [
        "koord.p -> koord.p.a",
        "koord.p.a -> koord.p",
    ]


def test_banned_words_are_seen_in_every_kind_of_name(tmp_path: Path) -> None:
    module = (
        "TOLD_FIRST = 1\n"
        "class _Wish:\n"
        "    asked: int\n"
        "    def lacks(self, each, *, here=1):\n"
        "        self._said = found = each\n"
        "        if found:\n"
        "            self.x, self.there = 1, 2\n"
        "        def inner(told): return told\n"
        "class ReservedRoom:\n    pass\n"
    )
    plain = (
        "NOT_FOUND = 2\ndef rooms(offer, state):\n    told = 1\nclass AllocationRules:\n    pass\n"
    )
    violations = keys(tmp_path, {"up_steps.py": module, "plain.py": plain})["banned_words"]
    assert sorted(violations) == [
        "koord.up_steps",
        "koord.up_steps:ReservedRoom",
        "koord.up_steps:TOLD_FIRST",
        "koord.up_steps:_Wish",
        "koord.up_steps:_Wish._said",
        "koord.up_steps:_Wish.asked",
        "koord.up_steps:_Wish.lacks",
        "koord.up_steps:_Wish.lacks(each)",
        "koord.up_steps:_Wish.lacks(here)",
        "koord.up_steps:_Wish.lacks.inner(told)",
        "koord.up_steps:_Wish.there",
    ]


@pytest.mark.parametrize(
    ("kind", "name", "word"),
    [
        ("class", "_State", "State"),
        ("class", "StateStore", ""),
        ("class", "RoomCheck", "Room"),
        ("function", "is_told", "told"),
        ("function", "teller", ""),
        ("parameter", "state", ""),
        ("constant", "NOT_FOUND", ""),
        ("module", "offer", "offer"),
        ("function", "offer", ""),
    ],
)
def test_whole_words_are_banned(kind: str, name: str, word: str) -> None:
    assert banned_word(kind, name) == word


def test_short_modules_with_one_user_join_it(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/small.py": "A = 1\n",
        "p/shared.py": "B = 1\n",
        "p/by_name.py": "C = 1\n",
        "p/one.py": f"from koord.p.small import A\nfrom koord.p.shared import B\n{LONG}",
        "p/two.py": f"from koord.p import shared\n{LONG}",
    }
    assert keys(tmp_path, files)["short_modules"] == ["koord.p.small"]


def test_a_class_name_is_used_once(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/a.py": "class Pod:\n    class Inner:\n        pass\nclass Node:\n    pass\n",
        "p/b.py": "class _Pod:\n    pass\nclass Inner:\n    pass\n",
    }
    assert keys(tmp_path, files)["duplicate_classes"] == ["Pod in koord.p.a", "Pod in koord.p.b"]


def test_what_is_allowed_may_only_shrink(tmp_path: Path) -> None:
    path = tmp_path / "allowed.toml"
    assert allowed_list.read(path) == {}
    first = allowed_list.renewed({}, {"words": ["b(each)", 'a"']})
    first["words"]["b(each)"] = "public"
    allowed_list.write(path, first)
    assert allowed_list.read(path) == {"words": {'a"': "", "b(each)": "public"}}
    assert allowed_list.renewed(first, {"words": ["b(each)"]}) == {"words": {"b(each)": "public"}}
    moved = allowed_list.renewed(first, {"words": ["c(each)", "b(each)"]})
    assert moved == {"words": {"c(each)": "", "b(each)": "public"}}
    with pytest.raises(ValueError, match="words: 3 instead of 2"):
        allowed_list.renewed(first, {"words": ["a", "b", "c"]})


def test_reports_name_what_is_new_and_what_is_no_longer_there(tmp_path: Path) -> None:
    keys(tmp_path, {"told.py": "def told():\n    pass\ndef said():\n    pass\n"})
    violations = violations_by_check(tmp_path / "src", "koord")
    allowed = {"banned_words": {"koord.told:said": "", "koord.told:wish": ""}}
    (report,) = [each for each in check(violations, allowed) if each.check == "banned_words"]
    assert report.lines() == [
        "banned_words: 1 not allowed, 1 allowed",
        "  src/koord/told.py:1: function told: told",
        "  no longer there: koord.told:wish",
        "  1 no longer there: --write takes them out of the list",
    ]
    assert not report.is_good


def test_the_sources_keep_the_rules_but_for_what_is_allowed() -> None:
    """``python -m tests.project.house`` says the same; what is mended leaves the list."""
    allowed = allowed_list.read(LIST)
    reports = check(violations_by_check(ROOT / "src", "koord"), allowed)
    assert [line for report in reports if not report.is_good for line in report.lines()] == []
