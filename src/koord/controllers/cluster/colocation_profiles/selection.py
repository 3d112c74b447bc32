# SPDX-License-Identifier: Apache-2.0
"""Which objects a profile is for: functions of plain values.

Rule: docs/reference/admission.md#clustercolocationprofile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.api import selectors
from koord.api.protocol import keys
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


def is_partial(share_percent: int) -> bool:
    """Whether some objects are taken and others not."""
    return 0 < share_percent < _ALL_PERCENT


def draw(profile_name: str, identity: str) -> int:
    """The number from 0 to 99 that an object draws for a profile, the same whenever it is asked.

    Args:
        profile_name: of the profile.
        identity: :func:`identity` of the object.
    """
    return rng.derive(0, "profile", profile_name, identity) % _ALL_PERCENT


def number_of(profile: ClusterColocationProfile, meta: ObjectMeta, review: str = "") -> int:
    """What an object has drawn for a profile: as it says itself, else by its name or review.

    Only one whose name was generated says so, since its name does not tell it again. Its author can
    write that too, as others can choose their names.

    Args:
        profile: which.
        meta: of the object, with its namespace.
        review: uid of the review of an object that is new; empty where there is none.
    """
    name = profile.metadata.name
    told = meta.annotations.get(keys.PROFILE_DRAWS) if meta.generate_name else None
    number = _draws_of(told).get(name) if told else None
    return draw(name, identity(meta, review)) if number is None else number


def is_in_share(
    profile: ClusterColocationProfile, meta: ObjectMeta, share_percent: int, review: str = ""
) -> bool:
    """Whether an object is among the share that a profile changes.

    Each draws once for each profile: ``share_percent`` of a hundred draws say yes, and a larger
    share takes in all objects of a smaller one.

    Args:
        profile: which.
        meta: of the object, with its namespace.
        share_percent: :func:`percent` of the profile.
        review: as for :func:`number_of`.
    """
    if not is_partial(share_percent):
        return share_percent > 0
    return number_of(profile, meta, review) < share_percent


def _draws_of(text: str) -> dict[str, int]:
    """The draws that an annotation tells of; none where it cannot be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except msgspec.MsgspecError:
        return {}


def identity(meta: ObjectMeta, review: str = "") -> str:
    """What an object draws by: its name, so that before and after it is stored it draws the same.

    One whose name is yet to be generated draws by its review: all pods of one owner are alike then.
    A pod then keeps what it drew in an annotation, since nobody sees the review afterwards.

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
