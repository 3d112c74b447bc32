# SPDX-License-Identifier: Apache-2.0
"""Rules that the workload kinds share: selector and template fit, counts, percentages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.selectors import holds
from koord.base.documents import Document
from koord.controlplane.kinds.pod.spec_validation import check_template
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.scheduling import check_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.kinds.validation.causes import Causes


def check_counts(spec: Document, fields: tuple[str, ...], path: str, causes: Causes) -> None:
    """Counts are not negative."""
    for field in fields:
        causes.negative(f"{path}.{field}", spec.get(field))


def check_workload(
    spec: Document, empty_selector: str, owner: str, causes: Causes, path: str = "spec"
) -> None:
    """Selector, template, and whether one selects the pods of the other.

    Args:
        empty_selector: what is said of a selector without conditions.
        owner: kind that the refusal of ``activeDeadlineSeconds`` names.
    """
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if selector is None:
        causes.required(f"{path}.selector")
    else:
        before = len(causes)
        check_selector(selector, f"{path}.selector", causes)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            causes.invalid(f"{path}.selector", selector, empty_selector)
        if len(causes) > before and selector.get("matchExpressions"):
            causes.invalid(f"{path}.selector", selector, "invalid label selector")
            check_long_lived_template(template, owner, f"{path}.template", causes)
            return
    empty = bool(selector is not None and not any(selector.values()))
    if selector is None or (not empty and not matches(selector, labels or {})):
        why = "`selector` does not match template `labels`"
        causes.invalid(f"{path}.template.metadata.labels", labels, why)
    check_long_lived_template(template, owner, f"{path}.template", causes)


def check_long_lived_template(template: Document, owner: str, path: str, causes: Causes) -> None:
    """A template whose pods always restart and have no end."""
    check_template(template, path, causes)
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy")
    if policy != "Always":
        causes.not_supported(f"{path}.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in spec:
        why = f"activeDeadlineSeconds in {owner} is not Supported"
        causes.forbidden(f"{path}.spec.activeDeadlineSeconds", why)


def matches(selector: Document, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector (of a document); an empty one matches everything."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_holds(entry, labels) for entry in selector.get("matchExpressions") or ())


def _holds(requirement: Document, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.get("key", ""))
    return holds(requirement.get("operator", ""), requirement.get("values") or (), value)


def check_int_or_percent(value: int | str | None, path: str, causes: Causes) -> None:
    """A count or a share: not negative, at most 100%."""
    if isinstance(value, int):
        causes.negative(path, value)
    elif value is not None:
        if whys := names.percent(value):
            causes.invalid_all(path, value, whys)
        elif int(value[:-1]) > 100:
            causes.invalid(path, value, "must not be greater than 100%")


def is_zero(value: int | str | None) -> bool:
    """Whether a count or share is nothing."""
    return value in (0, None) or (isinstance(value, str) and value.rstrip("%").strip("0") == "")
