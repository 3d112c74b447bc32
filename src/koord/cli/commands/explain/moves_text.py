# SPDX-License-Identifier: Apache-2.0
"""What the descheduler did with a pod, or with those of a node, as text."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from koord.cli.commands.explain.pod_text import counted
from koord.cli.terminal.output import print_table, say, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    Answer = Mapping[str, Any]

_MOST_ROWS = 10
_DRY_RUN = "would go"


def moves(answer: Answer) -> None:
    """The last rounds, then what keeps the pod or the node now.

    Args:
        answer: koord-descheduler's, or ``problem`` where it cannot be asked.
    """
    show(Text("descheduler", style="bold"))
    if "problem" in answer:
        say(f"koord-descheduler cannot be asked: {answer['problem']}")
        return
    is_pod = "/" in answer["name"]
    for line in _head(answer, is_pod):
        say(line)
    _outcomes(answer, is_pod)
    for migration in answer.get("migrations", []):
        say(_migration(migration))
    for verdict in answer.get("verdicts", []):
        say(_verdict(verdict, is_pod))


def _head(answer: Answer, is_pod: bool) -> list[str]:
    if answer.get("since") is None:
        return ["No round has been yet."]
    since = datetime.fromtimestamp(answer["since"]).strftime("%Y-%m-%d %H:%M:%S")
    within = f"{counted(answer.get('rounds', 0), 'round')} since {since}"
    counts = answer.get("counts", {})
    if counts:
        told = ", ".join(f"{result} {count}" for result, count in counts.items())
        lines = [f"In {within}: {told}."]
    else:
        lines = [f"In {within} no strategy wanted {'it' if is_pod else 'a pod of it'} to go."]
    if not answer.get("exists", True):
        lines.append("It is gone.")
    last = [*answer.get("errors", []), *filter(None, [answer.get("idle")])]
    return lines + [f"The last round: {each}" for each in last]


def _outcomes(answer: Answer, is_pod: bool) -> None:
    outcomes = answer.get("outcomes", [])
    rows = []
    for each in outcomes[:_MOST_ROWS]:
        at = datetime.fromtimestamp(each["at"]).strftime("%H:%M:%S")
        result = each["result"]
        if each.get("dryRun") and result == "evicted":
            result = _DRY_RUN
        told = (_way(each, answer["name"]), each.get("message", ""), each.get("reason", ""))
        why = "; ".join(filter(None, told))
        rows.append([at, result, each["node" if is_pod else "pod"], each["plugin"], why or "-"])
    if rows:
        say()
        print_table(["AT", "RESULT", "NODE" if is_pod else "POD", "BY", "WHY"], rows)
        more = len(outcomes) - len(rows) + answer.get("omitted", 0)
        if more:
            say(f"and {more} more, earlier")
        say()


def _way(outcome: Answer, name: str) -> str:
    """Where a plan has the pod go, or, of the node where it goes, where it comes from."""
    target = outcome.get("target", "")
    return f"from {outcome['node']}" if target == name else f"to {target}" if target else ""


def _migration(migration: Answer) -> str:
    line = f"Migration {migration['job']} of {migration['pod']}: {migration['phase']}"
    if migration.get("node"):
        line += f", to {migration['node']}"
    if migration.get("newPod"):
        line += f", as {migration['newPod']}"
    asked = f", asked for by {migration['trigger']}" if migration.get("trigger") else ""
    words = [migration.get(key, "") for key in ("reason", "message")]
    why = ": ".join(word for word in words if word)
    return f"{line}{asked}{f' ({why})' if why else ''}."


def _verdict(verdict: Answer, is_pod: bool) -> str:
    strategies = ", ".join(verdict.get("strategies", []))
    title = f"Profile {verdict['profile']} ({strategies or 'no strategy'})"
    if refusal := verdict.get("refusal"):
        return f"{title}: {'kept' if is_pod else 'not looked at'}: {refusal}."
    may = "may go, if a strategy wants it to" if is_pod else "looked at"
    return f"{title}: {may}."
