# SPDX-License-Identifier: Apache-2.0
"""Which objects a profile is for: functions of plain values.

Rule: docs/reference/admission.md#clustercolocationprofile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.base import rng
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.cluster import Namespace
    from koord.api.kinds.meta import ObjectMeta
    from koord.api.kinds.profile import ClusterColocationProfile, ClusterColocationProfileSpec

_ALL_PERCENT = 100


def check(profile: ClusterColocationProfile) -> None:
    """Accepts a profile that can be evaluated.

    Raises:
        KoordError: a selector or the share of pods is wrong.
    """
    percent(profile)
    for path, selector in (
        ("spec.selector", profile.spec.selector),
        ("spec.namespaceSelector", profile.spec.namespace_selector),
    ):
        if selector is not None:
            selectors.check(selector, profile.title, path)


def is_selected(
    spec: ClusterColocationProfileSpec,
    labels: Mapping[str, str],
    namespace: Namespace | None,
    *,
    absent_selects: bool = False,
    with_namespaces: bool = True,
) -> bool:
    """Whether a profile is for an object.

    Args:
        spec: of a profile that :func:`check` accepts.
        labels: of the object.
        namespace: the object's; None if it is not known.
        absent_selects: whether a profile without ``selector`` is for every object, as in
            admission, or for none, as in the manager's controller.
        with_namespaces: whether ``namespaceSelector`` counts.
    """
    if spec.selector is None:
        if not absent_selects:
            return False
    elif not selectors.matches(spec.selector, labels):
        return False
    if not with_namespaces or spec.namespace_selector is None:
        return True
    if selectors.is_empty(spec.namespace_selector):
        return True
    return namespace is not None and selectors.matches(
        spec.namespace_selector, namespace.metadata.labels
    )


def percent(profile: ClusterColocationProfile) -> int:
    """The share of pods that a profile changes, 0 to 100.

    Raises:
        KoordError: neither a number nor a percentage.
    """
    given = profile.spec.probability
    if given is None:
        return _ALL_PERCENT
    if isinstance(given, str):
        digits = given.removesuffix("%")
        if digits == given or not digits.isascii() or not digits.isdigit() or len(digits) > 9:
            expected = "a number, or a percentage such as 30%"
            raise KoordError(profile.title, "spec.probability", given, expected)
        given = int(digits)
    return min(max(given, 0), _ALL_PERCENT)


def is_drawn(profile: ClusterColocationProfile, identity: str, share_percent: int) -> bool:
    """Whether an object is among the share that a profile changes.

    Each draws once for each profile, and draws the same whenever it is asked: ``share_percent``
    of a hundred draws say yes, and a larger share takes in all objects of a smaller one.

    Args:
        profile: which.
        identity: :func:`identity` of the object.
        share_percent: :func:`percent` of the profile.
    """
    return rng.derive(0, "profile", profile.metadata.name, identity) % _ALL_PERCENT < share_percent


def identity(meta: ObjectMeta, review: str = "") -> str:
    """What an object draws by: its name, so that before and after it is stored it draws the same.

    One whose name is yet to be generated draws by its review: all pods of one owner are alike then.

    Args:
        meta: of the object, with its namespace.
        review: uid of the review; empty where there is none.
    """
    if meta.name:
        return f"{meta.namespace}/{meta.name}"
    if review:
        return f"{meta.namespace}/{meta.generate_name}/{review}"
    owners = ",".join(owner.uid for owner in meta.owner_references)
    return f"{meta.namespace}/{meta.generate_name}/{owners}"
