# SPDX-License-Identifier: Apache-2.0
"""What importing the package costs and loads."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import koord.api

HEAVY = (
    "aiohttp", "kubernetes", "numpy", "yaml", "typer", "rich", "koord._native.core",
    "koord._native.cluster",
)  # fmt: skip


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "import koord.api",
        "from koord.api import Pod, NodeSLO, Reservation, decode",
        'from koord.api import decode; decode(\'{"apiVersion":"v1","kind":"Pod"}\')',
    ],
)
def test_nothing_heavy_is_loaded(statement: str) -> None:
    loaded = set(_run(f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))").split())
    assert not [name for name in HEAVY if name in loaded]


def test_the_package_loads_none_of_its_modules() -> None:
    code = "import koord.api, sys\nprint('\\n'.join(m for m in sys.modules if 'koord' in m))"
    ours = set(_run(code).split())
    # The finder of an editable installation is not ours.
    assert {name for name in ours if not name.startswith("_")} == {"koord", "koord.api"}


def _least_seconds(module: str, runs: int = 7) -> float:
    """The least CPU time an import took over some fresh interpreters, measured inside each."""
    code = (
        "import time\n"
        "started = time.process_time()\n"
        f"{module}\n"
        "print(time.process_time() - started)"
    )
    return min(float(_run(code)) for _ in range(runs))


def test_an_import_costs_at_most_three_of_msgspec() -> None:
    # The least of several runs is what the import costs without the machine's other work; the
    # second statement is the one that programs write, with the structs of the kinds they name.
    base = _least_seconds("import msgspec")
    assert _least_seconds("import msgspec, koord.api") <= 3 * base
    assert _least_seconds("from koord.api import Pod, Node") <= 3 * base


def test_every_name_that_is_offered_exists() -> None:
    for name in koord.api.__all__:
        assert getattr(koord.api, name) is not None
    assert set(koord.api.__all__) <= set(dir(koord.api))
    with pytest.raises(AttributeError, match="no attribute 'Pot'"):
        koord.api.Pot  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    text = Path(koord.api.__file__).read_text("utf-8")
    seen = {
        line.rpartition(" as ")[2]
        for line in text.splitlines()
        if line.startswith("    from koord.api") and " as " in line
    }
    assert seen == set(koord.api.__all__)


def test_every_module_is_importable_alone() -> None:
    folder = Path(koord.api.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        import_module(".".join(("koord.api", *(part for part in parts if part != "__init__"))))
