# SPDX-License-Identifier: Apache-2.0
"""Texts as trees that know the line of every key and item: of YAML, and of JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from koord.base.documents import yaml_loader

if TYPE_CHECKING:
    from collections.abc import Iterator

_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"
# A text, a bracket, a separator, or any other scalar; spaces between them are skipped.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(eq=False)
class SourceNode:
    """One value of a document.

    Attributes:
        line: from 0, where its key or the item begins.
        text_line: of a scalar, the line on which its text begins; the same for its whole text
            unless ``literal``.
        literal: its lines are those of the text (YAML's ``|``).
        members: of a mapping.
        items: of a list.
        repeated: keys that stand in the mapping more than once, with the line of the second.
    """

    line: int = 0
    text_line: int = 0
    literal: bool = False
    members: dict[str, SourceNode] = field(default_factory=dict)
    items: list[SourceNode] = field(default_factory=list)
    repeated: dict[str, int] = field(default_factory=dict)

    def put(self, key: str, value: SourceNode) -> None:
        """Adds a member; the last one of a name counts."""
        if key in self.members:
            # The last one stands last, where a parser looks for the key at hand.
            del self.members[key]
            self.repeated.setdefault(key, value.line)
        self.members[key] = value


def yaml_branches(text: str) -> Iterator[SourceNode]:
    """The documents of a YAML text that :func:`koord.base.documents.parse_documents` accepts."""
    import yaml

    for node in yaml.compose_all(text, yaml_loader()):
        if node.tag != _NULL:
            yield _of_node(node, node.start_mark.line, {})


def _of_node(node: Any, line: int, known: dict[int, SourceNode]) -> SourceNode:
    """The branch of a node of PyYAML's; aliases share the branch of what they stand for."""
    found = known.get(id(node))
    if found is not None:
        return found
    import yaml

    literal = getattr(node, "style", None) == "|"
    branch = SourceNode(line, node.start_mark.line + literal, literal)
    known[id(node)] = branch
    if isinstance(node, yaml.SequenceNode):
        branch.items = [_of_node(each, each.start_mark.line, known) for each in node.value]
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == _MERGE:
                parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for part in parts:
                    merged = _of_node(part, part.start_mark.line, known).members
                    branch.members = {**merged, **branch.members}
        own = SourceNode()
        for key, value in node.value:
            if key.tag != _MERGE:
                own.put(str(key.value), _of_node(value, key.start_mark.line, known))
        branch.members |= own.members
        branch.repeated = own.repeated
    return branch


def json_branch(text: str) -> SourceNode:
    """The document of a JSON text that a parser has accepted, nested as deep as that allows."""
    import json

    top = SourceNode()
    open_: list[SourceNode] = [top]
    keys: list[str | None] = [None]
    line = position = 0
    expects_value = False
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        token, parent = match[0], open_[-1]
        if token in ",:":
            expects_value = token == ":"
        elif token in "}]":
            open_.pop()
            keys.pop()
            expects_value = False
        elif token[0] == '"' and keys[-1] == "" and not expects_value:
            key_line, key = line, str(json.loads(token, strict=False))
            parent.put(key, SourceNode(key_line, key_line))
        else:
            branch = _place_of_value(parent, keys[-1], line)
            if token in "{[":
                open_.append(branch)
                keys.append("" if token == "{" else None)
            expects_value = False
    return top.items[0]


def _place_of_value(parent: SourceNode, kind: str | None, line: int) -> SourceNode:
    """The branch that the value at hand fills: the last key's, a new item's, or the document's."""
    if kind == "" and parent.members:
        return next(reversed(parent.members.values()))
    branch = SourceNode(line, line)
    parent.items.append(branch)
    return branch
