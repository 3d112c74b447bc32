# SPDX-License-Identifier: Apache-2.0
"""Reviews as text and as JSON."""

from __future__ import annotations

from difflib import unified_diff
from itertools import groupby
from typing import TYPE_CHECKING, Any

from koord.base.errors import one_line
from koord.cli.terminal.output import say
from koord.controllers.webhook.server.json_patch import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.documents import Document
    from koord.cli.commands.admission.review_world import ReviewedObject
    from koord.controllers.webhook.framework.admission_decision import AdmissionDecision

_CONTEXT_LINES = 2


def show(reviewed: list[ReviewedObject], notes: list[str]) -> None:
    """Prints what becomes of each object, then a summary."""
    for each in reviewed:
        for line in _lines(each):
            say(line)
    for note in notes:
        say(f"note: {one_line(note)}")
    refused = sum(not each.review.allowed for each in reviewed)
    changed = sum(each.review.admitted != each.review.submitted for each in reviewed)
    count = len(reviewed)
    objects = "1 object" if count == 1 else f"{count} objects"
    say(f"{objects}: {changed} changed, {refused} refused")


def _lines(item: ReviewedObject) -> Iterator[str]:
    review = item.review
    of = f", of {item.maker}" if item.maker else ""
    yield one_line(f"{item.file}: {review.title}{of}")
    for verdict in review.verdicts:
        decision = verdict.decision
        if decision.allowed:
            yield from _effects(decision)
        for warning in decision.warnings:
            yield one_line(f"  warning: {warning}")
        if not decision.allowed:
            rules = ", ".join(dict.fromkeys(effect.rule for effect in decision.effects))
            by = f"{verdict.webhook.name}, {rules}" if rules else verdict.webhook.name
            yield one_line(f"  refused by {by}: {decision.message}")
    for line in _diff(review.submitted, review.admitted):
        yield f"  {one_line(line)}"
    if review.allowed:
        yield "  gets in" if review.verdicts else "  gets in; no webhook is asked"
    yield ""


def _effects(decision: AdmissionDecision) -> Iterator[str]:
    """What rules did, each under its name and what made it so."""
    for (rule, source), group in groupby(decision.effects, lambda each: (each.rule, each.source)):
        yield one_line(f"  {rule} ({source}):" if source else f"  {rule}:")
        for effect in group:
            yield one_line(f"    {effect.text}")


def _diff(before: Document, after: Document) -> Iterator[str]:
    if before != after:
        old, new = _yaml(before).splitlines(), _yaml(after).splitlines()
        yield from unified_diff(old, new, "submitted", "admitted", n=_CONTEXT_LINES, lineterm="")


def _yaml(document: Document) -> str:
    import yaml

    text: str = yaml.safe_dump(document, default_flow_style=False, width=10_000)
    return text


def document(reviewed: list[ReviewedObject], notes: list[str]) -> dict[str, Any]:
    """The same as a document."""
    return {"objects": [_object(each) for each in reviewed], "notes": notes}


def _object(item: ReviewedObject) -> dict[str, Any]:
    review = item.review
    return {
        "file": item.file,
        "object": review.title,
        **({"of": item.maker} if item.maker else {}),
        "allowed": review.allowed,
        "webhooks": [
            {
                "name": verdict.webhook.name,
                "allowed": verdict.decision.allowed,
                "status": int(verdict.decision.status),
                "message": verdict.decision.message,
                "warnings": list(verdict.decision.warnings),
                "effects": [
                    {"rule": effect.rule, "source": effect.source, "text": effect.text}
                    for effect in verdict.decision.effects
                ],
            }
            for verdict in review.verdicts
        ],
        "patch": difference(review.submitted, review.admitted),
        "admitted": review.admitted if review.allowed else None,
    }
