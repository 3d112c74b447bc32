# SPDX-License-Identifier: Apache-2.0
"""The stubs of the compiled modules name what is there at run time, and all of it."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import koord._native

FOLDER = Path(__file__).resolve().parents[2] / "src/koord/_native"
STUBS = sorted(FOLDER.rglob("*.pyi"))
OF_KERNELS = ("cluster", "core")
"""Modules that have a submodule a kernel."""
NATIVE = ("", None, *(f"koord._native.{name}" for name in OF_KERNELS))
# What pybind11 gives every enumeration.
MEMBER = {"name", "value"}


def module_of(stub: Path) -> ModuleType:
    words = stub.relative_to(FOLDER).with_suffix("").parts
    module: ModuleType = import_module(f"koord._native.{words[0]}")
    for word in words[1:]:
        # Submodules are attributes: no finder knows them.
        module = module if word == "__init__" else getattr(module, word)
    return module


def declared(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """The public names that a stub binds at run time, with the bodies of classes."""
    names: dict[str, list[ast.stmt]] = {}
    for statement in body:
        match statement:
            case ast.ClassDef(name=name, body=inside):
                names[name] = inside
            case ast.FunctionDef(name=name):
                names[name] = []
            # Where something else than a constant is assigned, it is an alias for type checkers.
            case (
                ast.AnnAssign(target=ast.Name(id=name))
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() | ast.UnaryOp())
            ):
                names[name] = []
            case ast.ImportFrom(module=module, names=imported) if module in NATIVE:
                names |= {alias.name: [] for alias in imported if alias.asname}
    return {name: inside for name, inside in names.items() if not name.startswith("_")}


def public(module: ModuleType) -> set[str]:
    """What a module defines, not what it imported."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) in (None, module.__name__)
    }


def own(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")} - MEMBER


def test_every_compiled_module_has_a_stub() -> None:
    stubs = {FOLDER / "wire.pyi"}
    for name in OF_KERNELS:
        module = import_module(f"koord._native.{name}")
        kernels = {one for one in public(module) if isinstance(getattr(module, one), ModuleType)}
        stubs |= {FOLDER / name / f"{one}.pyi" for one in ("__init__", *kernels)}
    assert set(STUBS) == stubs
    assert koord._native.__doc__


@pytest.mark.parametrize("stub", STUBS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_stub_and_its_module_agree(stub: Path) -> None:
    module = module_of(stub)
    names = declared(ast.parse(stub.read_text(encoding="utf-8")).body)
    assert public(module) == set(names)
    for name, body in names.items():
        kind = getattr(module, name, None)
        if isinstance(kind, type):
            assert own(kind) == set(declared(body)) - MEMBER, name
