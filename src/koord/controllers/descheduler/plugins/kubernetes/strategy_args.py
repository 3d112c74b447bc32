# SPDX-License-Identifier: Apache-2.0
"""What the arguments of strategies share: namespaces, label selectors, states of containers.

Rule: docs/reference/descheduling.md#namespaces-and-labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import label_text, selectors
from koord.api.kinds.meta import LabelSelector
from koord.controllers.descheduler.predicates.pod_filter import PodFilter
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from koord.api.kinds.pod import ContainerStatus, Pod
    from koord.controllers.scheduler.config.field_path import FieldPath


class Namespaces(ConfigStruct, frozen=True):
    """Which namespaces a strategy looks at: one list of the two."""

    include: list[str] = []
    exclude: list[str] = []

    def check(self, at: FieldPath) -> None:
        """Refuses both lists at once."""
        both = bool(self.include and self.exclude)
        at.need(not both, "include and exclude", "one of include and exclude")


class StrategyArgs(PluginArgs, frozen=True):
    """Which pods a strategy looks at."""

    namespaces: Namespaces | None = None
    label_selector: LabelSelector | None = None

    def check(self, at: FieldPath) -> None:
        """Both options are well formed."""
        if self.namespaces is not None:
            self.namespaces.check(at.inside("namespaces"))
        check_selector(self.label_selector, at.inside("labelSelector"))

    def pod_filter(self, accepts: Callable[[Pod], bool] | None = None) -> PodFilter:
        """The filter of these options."""
        return pod_filter(self.namespaces, self.label_selector, accepts)


def pod_filter(
    namespaces: Namespaces | None,
    label_selector: LabelSelector | None,
    accepts: Callable[[Pod], bool] | None,
) -> PodFilter:
    """The filter of two options that may be missing."""
    chosen = namespaces or Namespaces()
    return PodFilter(frozenset(chosen.include), frozenset(chosen.exclude), label_selector, accepts)


def check_selector(selector: LabelSelector | None, at: FieldPath) -> None:
    """Refuses a selector that cannot be evaluated."""
    if selector is not None:
        selectors.check(selector, at.source, at.path)


def check_selector_text(text: str, at: FieldPath) -> None:
    """Refuses a text that is no label selector."""
    try:
        label_text.parse(text)
    except ValueError as error:
        at.refuse(text, f"a label selector ({error})")


def check_words(words: Iterable[str], known: Iterable[str], at: FieldPath) -> None:
    """Refuses a word of a list that is none of those that are known."""
    for index, word in enumerate(words):
        at.inside(index).one_of(word, known)


def waiting_reasons(statuses: Iterable[ContainerStatus]) -> Iterator[str]:
    """Why containers wait."""
    for status in statuses:
        waiting = status.state.get("waiting")
        if isinstance(waiting, dict):
            yield str(waiting.get("reason", ""))


def terminated_reasons(statuses: Iterable[ContainerStatus]) -> Iterator[str]:
    """Why containers have ended."""
    for status in statuses:
        terminated = status.state.get("terminated")
        if isinstance(terminated, dict):
            yield str(terminated.get("reason", ""))


def exit_codes(statuses: Iterable[ContainerStatus]) -> Iterator[int]:
    """Codes with which containers have ended."""
    for status in statuses:
        terminated = status.state.get("terminated")
        if isinstance(terminated, dict):
            code = terminated.get("exitCode", 0)
            yield code if isinstance(code, int) else 0


def age_seconds(pod: Pod, now: float) -> int:
    """Whole seconds since a pod was made; a pod that does not say when is as old as the epoch."""
    created = pod.metadata.creation_timestamp
    return int(now - (created.timestamp() if created is not None else 0.0))
