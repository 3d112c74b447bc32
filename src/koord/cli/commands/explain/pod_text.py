# SPDX-License-Identifier: Apache-2.0
"""Answers of ``koord explain`` as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from koord.cli.terminal.output import print_table, say

Answer = Mapping[str, Any]
# Amounts from here on are no limits; the default quota has them.
_UNLIMITED_CHARACTERS = 16


def pod(answer: Answer) -> None:
    """Where a pod is, what came of its last attempt, and what would become of it now."""
    where = f" on {answer['node']}" if answer.get("node") else ""
    say(f"{answer['pod']}: {answer['state']}{where}")
    say(_last(answer))
    for note in answer.get("notes", []):
        say(f"{note}.")
    fitting = f"{answer.get('fitting', 0)} of {_nodes(answer.get('nodes', 0))} would take it"
    if answer.get("refused"):
        first = f", {answer['chosen']} first" if answer.get("chosen") else ""
        say(f"Now: refused before any node is looked at: {answer['refused']}")
        say(f"Without that {fitting}{first}.")
    else:
        say(f"Now{', by itself' if answer.get('gang') else ''}: {fitting}.")
    if answer.get("gang"):
        gang_lines(answer["gang"], answer.get("refused", ""))
    _filters(answer.get("filters", []))
    _nearest(answer.get("nearest", []))
    _best(answer.get("best", []))
    if answer.get("chosen") and not answer.get("refused"):
        say(f"\nIt would go to {answer['chosen']}.")
    for plugin, choice in answer.get("allocations", {}).items():
        say(f"  {plugin}: {in_words(choice)}")
    for change in answer.get("changes", []):
        say(f"\nOne change would let it onto {_nodes(change['nodes'])}: {change['text']}.")


def node(answer: Answer) -> None:
    """What a node has, what is requested of it, and by whom."""
    from koord.controllers.scheduler.explain.explanation import amount

    say(f"{answer['nodeName']}: {counted(len(answer['pods']), 'pod')}")
    if problem := answer.get("problem"):
        say(f"What is wrong: {problem}.")
    say()
    rows = []
    for name, allocatable in answer["allocatable"].items():
        figures = (allocatable, answer["requested"][name], answer["remaining"][name])
        if any(figures[:2]):
            rows.append([name, *(amount(name, figure) for figure in figures)])
    print_table(["RESOURCE", "ALLOCATABLE", "REQUESTED", "FREE"], rows)
    if answer["pods"]:
        say()
        print_table(["POD"], [[key] for key in answer["pods"]])
    for line in answer.get("contradictions", []):
        say(f"\nDoes not count: {line}.")


def in_words(value: Any) -> str:
    """A plugin's choice on one line, without braces and quotes where it is plain."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inner(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(_inner(each) for each in value)
    return str(value)


def _inner(value: Any) -> str:
    return f"({in_words(value)})" if isinstance(value, Mapping) else in_words(value)


def _last(answer: Answer) -> str:
    last = answer.get("last")
    if last is None:
        since = datetime.fromtimestamp(answer["since"]).strftime("%Y-%m-%d %H:%M:%S")
        return f"No attempt is remembered; this scheduler remembers them since {since}."
    moment = datetime.fromtimestamp(last["at"]).strftime("%Y-%m-%d %H:%M:%S")
    came = last.get("message") or f"went to {last.get('node', '')}"
    return f"Last attempt at {moment}: {came}"


def gang_lines(gang: Answer, reason: str) -> None:
    """How many pods there are, and what would become of all of them together.

    Args:
        gang: the answer's part.
        reason: why the pod by itself is refused; it is not said twice.
    """
    say()
    for line in gang["members"]:
        head = f"Gang {line['gang']}: {counted(line['pods'], 'pod')}"
        if line.get("problem"):
            say(f"{head}; {line['problem']}.")
            continue
        lacks = f" and lacks {line['lacks']}" if line.get("lacks") else ""
        there = f"{line['bound']} bound, {line['held']} holding a node"
        say(f"{head}; it needs {line['minimum']}{lacks}; {there}.")
    if gang.get("refused") and gang["refused"] != reason:
        say(f"The gang cannot be tried: {gang['refused']}")
    if gang.get("tried") or gang.get("missing"):
        _planned(gang)


def _planned(gang: Answer) -> None:
    tried, placed, missing = (gang.get(name, 0) for name in ("tried", "placed", "missing"))
    head = f"Together now: {placed} of {counted(tried, 'pod')} would get a node"
    say(f"{head}, {missing} more must." if missing else f"{head}; it goes.")
    if gang.get("first"):
        say(f"  {gang['first']} is the first that would get none: {gang['message']}")
    elif gang.get("message"):
        say(f"  {gang['message']}")
    if gang.get("chosen"):
        say(f"  This pod would go to {gang['chosen']}.")


def _filters(filters: list[Answer]) -> None:
    rows = []
    for line in filters:
        why = ", ".join(f"{count} {reason}" for reason, count in line["reasons"].items())
        rows.append([line["plugin"], str(line["nodes"]), str(line["first"]), why or "-"])
    _table(["FILTER", "REFUSES", "FIRST", "WHY"], rows)


def _nearest(nodes: list[Answer]) -> None:
    from koord.controllers.scheduler.explain.explanation import amount

    rows = []
    for line in nodes:
        missing = line.get("missing", {}).items()
        short = [f"{name} {amount(name, lack)}" for name, lack in missing]
        lacks = ", ".join([*short, *line.get("lacks", ())])
        rows.append([line["node"], ", ".join(line["reasons"]), lacks or "-"])
    _table(["NEAREST NODE", "WHY NOT", "LACKS"], rows)


def _best(nodes: list[Answer]) -> None:
    """A column a node, a line a plugin: names of plugins are long."""
    if not nodes:
        return
    rows = [["total", *(str(line["total"]) for line in nodes)]]
    rows += [
        [plugin, *(str(line["byPlugin"].get(plugin, 0)) for line in nodes)]
        for plugin in nodes[0]["byPlugin"]
    ]
    _table(["SCORE", *(line["node"] for line in nodes)], rows)


def _table(columns: list[str], rows: list[list[str]]) -> None:
    if rows:
        say()
        print_table(columns, rows)


def _nodes(count: int) -> str:
    return counted(count, "node")


def counted(count: int, noun: str) -> str:
    """So many of something."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def limit(text: str | None) -> str:
    """An amount of a quota."""
    if text is None:
        return "-"
    return "no limit" if len(text) >= _UNLIMITED_CHARACTERS else text
