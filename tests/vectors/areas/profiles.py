# SPDX-License-Identifier: Apache-2.0
"""Which pods a ClusterColocationProfile is for, and what it makes of their labels and annotations.

An outcome is labels and annotations. The original walks mappings in any order, so that it may have
several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import codec, selectors
from koord.api.kinds.cluster import Namespace
from koord.api.kinds.pod import Pod
from koord.api.kinds.profile import ClusterColocationProfile
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles import effect, selection
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from koord.api.kinds.meta import ObjectMeta

SEED = 20262
COVERAGE: dict[str, str] = {}

_KEYS = ["a", "b", "c", "d", "koordinator.sh/qosClass", "koordinator.sh/priority"]
_VALUES = ["v", "w", "v-x", "-x", "", "BE"]
_SHARES = [None, 0, 1, 30, 50, 99, 100, 101, -1, "0%", "30%", "100%", "150%", "30", "x%", "%", ""]
_ALL_PERCENT = 100
_OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist"]


def inputs(draw: random.Random) -> list[Json]:
    """One profile, one pod, and the pod's namespace or none."""
    return [_case(draw) for _ in range(800)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    profile = codec.convert(case["profile"], ClusterColocationProfile, "profile")
    meta = codec.convert(case["pod"], Pod, "pod").metadata
    given = case["namespace"]
    namespace = None if given is None else codec.convert(given, Namespace, "namespace")
    try:
        taken = selection.percent(profile)
    except KoordError:
        taken = -1
    return {
        "selected": _is_selected(profile, meta, namespace), "taken": taken,
        "outcomes": [_outcome(profile, meta)],
    }  # fmt: skip


def _is_selected(
    profile: ClusterColocationProfile, meta: ObjectMeta, namespace: Namespace | None
) -> bool:
    spec = profile.spec
    try:
        for selector in (spec.selector, spec.namespace_selector):
            if selector is not None:
                selectors.check(selector, profile.title, "spec")
    except KoordError:
        return False
    return selection.is_selected(spec, meta.labels, namespace)


def _outcome(profile: ClusterColocationProfile, meta: ObjectMeta) -> Json:
    patch = effect.change(profile.spec, meta).get("metadata", {})
    outcome = []
    for name, old in (("labels", meta.labels), ("annotations", meta.annotations)):
        after = {**old, **patch.get(name, {})}
        outcome.append({key: text for key, text in after.items() if text is not None})
    return outcome


def _texts(draw: random.Random, most: int) -> dict[str, str]:
    chosen = draw.sample(_KEYS, draw.randint(0, most))
    return {key: draw.choice(_VALUES) for key in chosen}


def _mapping(draw: random.Random) -> dict[str, str]:
    return {key: draw.choice(_KEYS) for key in draw.sample(_KEYS, draw.choice([1, 1, 1, 2, 2, 3]))}


def _selector(draw: random.Random) -> Json:
    found: dict[str, Any] = {}
    if draw.random() < 0.6:
        found["matchLabels"] = _texts(draw, 1)
    if draw.random() < 0.5:
        operator = draw.choice(_OPERATORS) if draw.random() < 0.95 else "Unknown"
        requirement: dict[str, Any] = {"key": draw.choice(_KEYS[:4]), "operator": operator}
        if operator in ("In", "NotIn") or draw.random() < 0.1:
            requirement["values"] = draw.sample(_VALUES, draw.randint(0, 3))
        found["matchExpressions"] = [requirement]
    return found


def _patch(draw: random.Random) -> Json:
    found: dict[str, Any] = {}
    for name in ("labels", "annotations"):
        if draw.random() < 0.6:
            found[name] = {**_texts(draw, 2)}
            if draw.random() < 0.4:
                found[name][draw.choice(_KEYS)] = None
    return {"metadata": found}


def _case(draw: random.Random) -> Json:
    spec: dict[str, Any] = {}
    makers: dict[str, Callable[[], Any]] = {
        "labels": lambda: _texts(draw, 2),
        "annotations": lambda: _texts(draw, 2),
        "labelKeysMapping": lambda: _mapping(draw),
        "annotationKeysMapping": lambda: _mapping(draw),
        "labelSuffixes": lambda: {draw.choice(_KEYS): draw.choice(["-x", "-y", ""])},
        "qosClass": lambda: draw.choice(["BE", "LS", ""]),
        "koordinatorPriority": lambda: draw.choice([0, 9, 5500, -3]),
        "priorityClassName": lambda: "koord-batch",
        "schedulerName": lambda: "koord-scheduler",
        "patch": lambda: _patch(draw),
    }
    for name, make in makers.items():
        if draw.random() < 0.3:
            spec[name] = make()
    for name, share in (("selector", 0.85), ("namespaceSelector", 0.5)):
        if draw.random() < share:
            spec[name] = _selector(draw)
    probability = draw.choice(_SHARES)
    if probability is not None:
        spec["probability"] = probability
    labels = _texts(draw, 4)
    namespace = {"metadata": {"name": "d", "labels": _texts(draw, 3)}}
    pod: dict[str, Any] = {"name": "p", "namespace": "d"}
    if draw.random() < 0.85:
        pod["labels"] = labels
    if draw.random() < 0.85:
        pod["annotations"] = _texts(draw, 3)
    return {
        "profile": {"metadata": {"name": "x"}, "spec": spec}, "pod": {"metadata": pod},
        "namespace": namespace if draw.random() < 0.85 else None,
    }  # fmt: skip


def _exact_share(case: Json, theirs: Json, ours: Json) -> Json:
    if 0 < ours["taken"] < _ALL_PERCENT:
        return {**theirs, "taken": theirs["taken"] - 1}
    return theirs


def _one_outcome(case: Json, theirs: Json, ours: Json) -> Json:
    if len(theirs["outcomes"]) > 1 and ours["outcomes"][0] in theirs["outcomes"]:
        return {**theirs, "outcomes": ours["outcomes"]}
    return theirs


def _suffix_once(case: Json, theirs: Json, ours: Json) -> Json:
    labels = case["pod"]["metadata"].get("labels", {})
    suffixes = case["profile"]["spec"].get("labelSuffixes", {})
    if not any(text and labels.get(key, "").endswith(text) for key, text in suffixes.items()):
        return theirs
    if ours["outcomes"][0][1] in [outcome[1] for outcome in theirs["outcomes"]]:
        return {**theirs, "outcomes": ours["outcomes"]}
    return theirs


def _evaluated(case: Json, theirs: Json, ours: Json) -> Json:
    spec = case["profile"]["spec"]
    selectors_given = [spec.get("selector") or {}, spec.get("namespaceSelector") or {}]
    values = [text for each in selectors_given for text in each.get("matchLabels", {}).values()]
    for each in selectors_given:
        for requirement in each.get("matchExpressions", []):
            values += requirement.get("values", [])
    return {**theirs, "selected": ours["selected"]} if "-x" in values else theirs


DIFFERENCES = {
    "admission-probability-exact": Difference(
        "a share of n percent takes n of a hundred draws, not n + 1", adjusted=_exact_share,
    ),
    "admission-mappings-one-outcome": Difference(
        "of the outcomes that mappings may have in the original, koord always has one",
        adjusted=_one_outcome,
    ),
    "admission-suffix-once": Difference(
        "a label that ends in its suffix does not get another", adjusted=_suffix_once,
    ),
    "admission-profile-selectors": Difference(
        "a selector with a value that no label can have is evaluated", adjusted=_evaluated,
    ),
}  # fmt: skip
