# SPDX-License-Identifier: Apache-2.0
"""Banned words in names that others read: metaphors, participles, and words that say nothing.

Looked at are names of modules, of classes, of functions, their parameters, of fields and
attributes, and of constants of modules. Locals are not.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from tests.project.house.source_tree import Module, Violation, bound_names

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = {
    "verdicts", "asking", "parts", "standing", "book", "everywhere", "figures", "offer",
    "promises", "around", "lacking", "nearness", "gather", "residents", "slots", "steps",
    "beneath", "quiet", "seen", "standins", "learned",
}  # fmt: skip
"""Of a module's name the whole, or a part between underscores."""
METAPHORS = {
    "Said", "Shown", "Judged", "Known", "Mark", "Tell", "Told", "Around", "Wish", "Wishes",
    "Room", "Standing",
}  # fmt: skip
"""Of a class's name the whole, or a word of it."""
BARE = {
    "State", "Settings", "Rule", "Ledger", "Round", "Amounts", "Charge", "Place", "Offer",
    "Allocation", "Zones", "Row",
}  # fmt: skip
"""A class's whole name, leading underscores apart: words that alone mean several things."""
NAMES = {
    "found", "told", "said", "each", "asked", "here", "there", "turns", "stamps", "stamp",
    "shown", "judged", "tell", "wish", "wishes", "room", "standing", "around", "lacks",
    "lacking",
}  # fmt: skip
"""Of any other name the whole, or a part between underscores."""
PHRASES = ("not_found",)
"""Words of Kubernetes that have a banned one as a part: the reason NotFound."""
_AROUND_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case, ast.withitem, ast.Tuple)
"""Nodes within which others bind names; the rest are expressions, which bind none that count."""


class Name(NamedTuple):
    """A name that a module declares.

    Args:
        kind: module, class, function, parameter, attribute or constant.
        name: itself.
        key: with the classes and functions that it is in.
        line: where.
    """

    kind: str
    name: str
    key: str
    line: int


def violations(modules: dict[str, Module]) -> list[Violation]:
    """Each name with a banned word, by module; what a module repeats is told once."""
    by_key: dict[str, Violation] = {}
    for module_name, module in modules.items():
        for name in names(module_name, module):
            if word := banned_word(name.kind, name.name):
                text = f"{module.path}:{name.line}: {name.kind} {name.name}: {word}"
                by_key.setdefault(name.key, Violation(name.key, text))
    return list(by_key.values())


def banned_word(kind: str, name: str) -> str:
    """The banned word in a name, or nothing."""
    if kind == "class":
        bare = name.lstrip("_")
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|\d+", bare)
        return bare if bare in BARE else next((word for word in words if word in METAPHORS), "")
    name = name.lower()
    for phrase in PHRASES:
        name = name.replace(phrase, "")
    banned = MODULES if kind == "module" else NAMES
    return next((word for word in name.split("_") if word in banned), "")


def names(module_name: str, module: Module) -> Iterator[Name]:
    """All names that a module declares, its own first."""
    yield Name("module", module_name.rpartition(".")[2], module_name, 1)
    for statement in module.tree.body:
        for constant, line in bound_names(statement):
            yield Name("constant", constant, f"{module_name}:{constant}", line)
    pending: list[tuple[ast.AST, str, str]] = [(module.tree, f"{module_name}:", "")]
    while pending:
        parent, prefix, owner = pending.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.ClassDef):
                inner = f"{prefix}{node.name}."
                yield from _of_class(node, prefix)
                pending.append((node, inner, inner))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _of_function(node, prefix)
                pending.append((node, f"{prefix}{node.name}.", owner))
            elif isinstance(node, _AROUND_STATEMENTS):
                pending.append((node, prefix, owner))
            elif _is_attribute_of_self(node):
                yield Name("attribute", node.attr, owner + node.attr, node.lineno)


def _of_class(node: ast.ClassDef, prefix: str) -> Iterator[Name]:
    """A class and its fields; prefix is the module with the classes and functions around."""
    yield Name("class", node.name, prefix + node.name, node.lineno)
    for statement in node.body:
        for field, line in bound_names(statement):
            yield Name("attribute", field, f"{prefix}{node.name}.{field}", line)


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str) -> Iterator[Name]:
    """A function and its parameters."""
    yield Name("function", node.name, prefix + node.name, node.lineno)
    for parameter in _parameters(node.args):
        key = f"{prefix}{node.name}({parameter.arg})"
        yield Name("parameter", parameter.arg, key, parameter.lineno)


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return named + [rest for rest in (arguments.vararg, arguments.kwarg) if rest is not None]


def _is_attribute_of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
