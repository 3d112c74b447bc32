# SPDX-License-Identifier: Apache-2.0
"""Answers of ``koord explain gang``, ``reservation``, ``device`` and ``quota`` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord.api.protocol.resources import GPU_CORE
from koord.cli.commands.explain.pod_text import counted, gang_lines, in_words, limit
from koord.cli.terminal.output import print_table, say

Answer = Mapping[str, Any]
_WHOLE = "100"
# Distinct messages of pods that are shown.
_MESSAGES = 5


def gang(answer: Answer) -> None:
    """What a gang needs, what a plan for it would come to, and its pods."""
    words = [f"gang {answer['gang']}"]
    if "minimum" in answer:
        words.append(f"it needs {answer['minimum']}, {answer['mode']}")
    if "phase" in answer:
        words.append(f"its PodGroup is {answer['phase']}")
    say("; ".join(words))
    _problem(answer)
    if "plan" in answer and not answer.get("problem"):
        gang_lines(answer["plan"], answer.get("problem", ""))
    _pods(answer)


def reservation(answer: Answer) -> None:
    """What a reservation holds and for whom, or why it holds nothing."""
    where = f" on {answer['node']}" if answer.get("node") else ""
    state = f", {answer['state']}" if answer.get("state") else ""
    phase = f": {answer['phase']}{where}{state}" if "phase" in answer else ""
    say(f"reservation {answer['reservation']}{phase}")
    _problem(answer)
    if answer.get("quota"):
        say(f"It counts in the quota {answer['quota']}.")
    message = answer.get("last", {}).get("message", "")
    said = [each for each in answer.get("conditions", []) if each["message"]]
    for line in dict.fromkeys(
        [*(each["message"] for each in said), *([message] if message else [])]
    ):
        if line != answer.get("problem"):
            say(f"Not yet: {line}" if not answer.get("node") else line)
    held, used = answer.get("allocatable", {}), answer.get("allocated", {})
    rows = [[name, held[name], used.get(name, "0")] for name in sorted(held)]
    if rows:
        say()
        print_table(["RESOURCE", "HELD", "USED"], rows)
    _pods(answer)


def device(answer: Answer) -> None:
    """The cards of a node, and who holds what of them."""
    if "deviceTotalDetail" not in answer:
        say(f"{answer['problem']}.")
        return
    say(f"devices of node {answer['node']}")
    _problem(answer)
    rows = []
    total, free = answer.get("deviceTotalDetail", {}), answer.get("deviceFreeDetail", {})
    sick = answer.get("unhealthy", {})
    for kind in sorted(total):
        for minor, amounts in sorted(total[kind].items(), key=lambda each: int(each[0])):
            left = free.get(kind, {}).get(minor, {})
            well = "no" if int(minor) in sick.get(kind, []) else "yes"
            rows += [
                [kind, minor, well, name, amounts[name], left.get(name, "0")] for name in amounts
            ]
    if rows:
        say()
        print_table(["TYPE", "MINOR", "HEALTHY", "RESOURCE", "ALL", "FREE"], rows)
    _pods(answer)


def quota(answer: Answer) -> None:
    """A group's limits and use by resource, and its pods; or why it is not in force."""
    parent = f", child of {answer['parentName']}" if answer.get("parentName") else ""
    say(f"{answer['name']}{parent}")
    _problem(answer)
    if "max" not in answer:
        if answer.get("problem"):
            say("It is not in force: pods that name it are refused.")
        return
    say()
    _figures([answer], ("min", "max", "runtime", "request", "used"))
    pods = answer.get("podCache", {})
    if pods:
        say()
        rows = [[key, one.get("node") or "-", "yes" if one["isAssigned"] else "no",
                 in_words(one["resource"])]
                for key, one in sorted(pods.items())]  # fmt: skip
        print_table(["POD", "NODE", "COUNTS AS USED", "REQUEST"], rows)


def _problem(answer: Answer) -> None:
    if answer.get("problem"):
        say(f"What is wrong: {answer['problem']}.")


def _pods(answer: Answer) -> None:
    """A line a pod, what they were told, and the quotas that they use."""
    pods = answer.get("pods", [])
    if not pods:
        return
    say()
    named = ("quota", "reservation", "devices")
    shown = [name for name in named if any(line.get(name) for line in pods)]
    rows = [
        [line["pod"], line["state"], line.get("node") or "-",
         *(_cell(line.get(name)) for name in shown)]
        for line in pods
    ]  # fmt: skip
    print_table(["POD", "STATE", "NODE", *(name.upper() for name in shown)], rows)
    if answer.get("notShown"):
        say(f"and {counted(answer['notShown'], 'pod')} more")
    _messages(pods)
    quotas = answer.get("quotas", [])
    if quotas:
        say()
        valid = [one for one in quotas if not one.get("problem")]
        if valid:
            _figures(valid, ("max", "runtime", "used"), named=True)
        for one in quotas:
            if one.get("problem"):
                say(f"The quota {one['name']} is not in force: {one['problem']}.")


def _cell(value: Any) -> str:
    """A name; or which cards, with what of one where that is not all of it."""
    if not isinstance(value, list):
        return value or "-"
    words = []
    for card in value:
        core = str(card.get("resources", {}).get(GPU_CORE, _WHOLE))
        part = f" ({core}%)" if core != _WHOLE else ""
        words.append(f"{card['type']} {card['minor']}{part}")
    return ", ".join(words)


def _messages(pods: list[Answer]) -> None:
    """Why pods have no node, each reason once."""
    told: dict[str, list[str]] = {}
    for line in pods:
        if line.get("message"):
            told.setdefault(line["message"], []).append(line["pod"])
    for message, names in list(told.items())[:_MESSAGES]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        say(f"\n{names[0]}{more}: {message}")
    if len(told) > _MESSAGES:
        say(f"\nand {len(told) - _MESSAGES} other reasons")


def _figures(quotas: list[Answer], columns: tuple[str, ...], *, named: bool = False) -> None:
    rows = []
    for one in quotas:
        resources = sorted({name for column in columns for name in one.get(column, {})})
        for name in resources:
            cells = [limit(one.get(column, {}).get(name)) for column in columns]
            rows.append([*([one["name"]] if named else []), name, *cells])
    heads = [*(["QUOTA"] if named else []), "RESOURCE", *(each.upper() for each in columns)]
    print_table(heads, rows)
