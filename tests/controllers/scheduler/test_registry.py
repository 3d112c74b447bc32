# SPDX-License-Identifier: Apache-2.0
"""Plugins by name: koord's own and those of other packages."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from koord.controllers.scheduler.built_in_plugins import ABSORBED, ARGS, BUILT_IN, METHODS
from koord.controllers.scheduler.config.configuration_file import POINTS
from koord.controllers.scheduler.framework import plugin as framework
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.registry import GROUP, Registry, points_of
from tests.controllers.scheduler.config.plugins import plugin_class
from tests.outcomes import refusal

MODULE = """
from koord.controllers.scheduler.framework.plugin import Plugin
class Spread(Plugin):
    name = "Spread"
    def score(self, cycle, rows): ...
class Nothing(Plugin):
    name = "Nothing"
class Other(Plugin):
    name = "Another"
    def score(self, cycle, rows): ...
class Untyped(Plugin):
    name, args_type = "Untyped", dict
    def permit(self, cycle, row): ...
class Picky(Plugin):
    name = "Picky"
    def __init__(self, args, handle): raise ValueError("no zone")
    def permit(self, cycle, row): ...
number = 7
"""


def entry(name: str, attribute: str = "", module: str = "outside_plugins") -> EntryPoint:
    return EntryPoint(name, f"{module}:{attribute or name}", GROUP)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_plugins.py").write_text(MODULE)
    (tmp_path / "outside_broken.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outside_plugins", raising=False)


@pytest.mark.usefixtures("outside")
def test_an_entry_point_is_imported_when_it_is_wanted() -> None:
    found = Registry([entry("Spread")])
    assert "Spread" in found.names()
    assert "outside_plugins" not in sys.modules
    assert found.points("Spread") == {"score"}
    assert found.make("Spread", None, None).name == "Spread"  # type: ignore[arg-type]
    assert found.args_type("Spread") is None


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("point", "message"),
    [
        (entry("Nothing"), "expected one of bind, filter, filter_node"),
        (entry("Other"), "plugin Other: name: got 'Another', expected Other, as it is registered"),
        (entry("Untyped"), "expected a msgspec.Struct, or None"),
        (entry("Number", "number"), "got 7, expected a class that inherits koord's Plugin"),
        (entry("Gone"), "a class that can be imported (AttributeError"),
        (entry("Broken", "X", "outside_broken"), "(ModuleNotFoundError: No module named"),
    ],
)
def test_what_is_no_plugin_is_refused_when_it_is_wanted(point: EntryPoint, message: str) -> None:
    assert message in refusal(Registry([point]).plugin, point.name)


@pytest.mark.usefixtures("outside")
def test_arguments_that_a_plugin_refuses() -> None:
    told = refusal(Registry([entry("Picky")]).make, "Picky", None, None)
    assert told.startswith("plugin Picky: args:")


def test_a_name_belongs_to_one_plugin() -> None:
    assert "not taken already by koord" in refusal(Registry, [entry("NodeName")])
    twice = [entry("Mine", "a"), entry("Mine", "b")]
    assert "not taken already by outside_plugins:a" in refusal(Registry, twice)


def test_an_unknown_name_names_the_nearest() -> None:
    told = refusal(Registry([]).plugin, "Cosheduling")
    assert told.endswith("got 'Cosheduling', expected a known plugin, such as Coscheduling")


def test_a_registered_class_replaces_a_built_in_one() -> None:
    found = Registry([])
    own = plugin_class("NodeName", "filter")
    found.register(own)
    assert found.plugin("NodeName") is own
    assert "expected a name" in refusal(found.register, plugin_class("", "filter"))


def test_the_tables_fit_each_other() -> None:
    assert tuple(METHODS) == POINTS
    for name, built_in in BUILT_IN.items():
        assert built_in.points, name
        assert built_in.points <= set(POINTS), name
    assert set(ARGS) <= set(BUILT_IN)
    for kind in ARGS.values():
        assert kind() == kind()
    assert not set(ABSORBED) & set(BUILT_IN)


def test_points_are_those_of_the_framework() -> None:
    for point in POINTS:
        protocol = getattr(framework, point[0].upper() + point[1:])
        assert points_of(type("Some", (Plugin, protocol), {})) == {point}
    assert points_of(type("Some", (Plugin, framework.PerNodeFilter), {})) == {"filter"}
    assert points_of(type("Some", (Plugin, framework.PodListener), {})) == frozenset()
