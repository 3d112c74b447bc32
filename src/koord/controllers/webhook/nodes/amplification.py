# SPDX-License-Identifier: Apache-2.0
"""A node offers more CPU and memory than it has, by the ratios that the manager wrote.

Rule: docs/reference/admission.md#node-status-resource-amplification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api import codec
from koord.api.kinds.meta import ResourceList
from koord.api.kinds.node import Node
from koord.api.protocol import annotation, keys, nodes
from koord.base.errors import KoordError
from koord.controllers.webhook.framework.admission_decision import RuleEffect
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.base.documents import Document

AMPLIFIED = ("cpu", "memory")
_RULE = "node-status-resource-amplification"
_USER = "system:node:{}"


class AmplifiedNode(NamedTuple):
    """What a node's annotations say.

    Attributes:
        ratios: by resource; empty where nothing is to be amplified.
        raw: what it offered before; None where that is not known.
        applied: the ratios that made its allocatable of ``raw``; None where nobody says.
    """

    ratios: Mapping[str, float]
    raw: ResourceList | None
    applied: Mapping[str, float] | None


def read_annotations(node: Node) -> AmplifiedNode:
    """See :class:`AmplifiedNode`; what was applied counts as unknown where it cannot be read.

    Raises:
        KoordError: ratios or raw amounts cannot be read.
    """
    ratios = {}
    if node.metadata.annotations.get(keys.RESOURCE_AMPLIFICATION_RATIO):
        ratios = nodes.amplification_ratios(node)
    try:
        applied = annotation.read(node, keys.APPLIED_AMPLIFICATION, dict[str, float])
    except KoordError:
        applied = None
    return AmplifiedNode(ratios, nodes.raw_allocatable(node) if ratios else None, applied)


def is_of_kubelet(node: Node, old: Node, username: str) -> bool:
    """Whether a write is the kubelet's own report of what its machine offers.

    A kubelet writes as its node's user, and each report renews the heartbeats of conditions; its
    other writes carry whatever was stored.
    """
    if username != _USER.format(node.metadata.name):
        return False
    beats = {each.type: each.last_heartbeat_time for each in old.status.conditions}
    return any(beats.get(each.type) != each.last_heartbeat_time for each in node.status.conditions)


def raw_amounts(
    said: AmplifiedNode, new: ResourceList, old: ResourceList, own: bool
) -> ResourceList:
    """What the machine itself offers.

    Args:
        said: by the annotations.
        new: allocatable as it is written.
        old: allocatable as it is.
        own: whether the kubelet writes it.
    """
    raw = {}
    for name in AMPLIFIED:
        amount = new.get(name)
        if amount is None:
            continue
        known = said.raw.get(name) if said.raw is not None else None
        stays = known is not None and not own and _is_ours(said, name, known, amount, old)
        raw[name] = known if stays and known is not None else amount
    return raw


def _is_ours(
    said: AmplifiedNode, name: str, known: Quantity, amount: Quantity, old: ResourceList
) -> bool:
    """Whether an amount is what ``known`` was amplified to, or stands for it unchanged."""
    if said.applied is None:
        # Koordinator's webhook, which does not say what it applied: a change is the kubelet's.
        return old.get(name) == amount
    made = (said.applied.get(name, 1.0), said.ratios.get(name, 1.0))
    return amount in [amplified(known, ratio) for ratio in made]


def amplified(amount: Quantity, ratio: float) -> Quantity:
    """An amount times a ratio, cut to thousandths; as it is for one that nobody can mean.

    Raises:
        ValueError: thousandths of it do not fit in 64 bits.
    """
    if not 1 < ratio <= nodes.LARGEST_RATIO:
        return amount
    return Quantity.from_milli(int(amount.milli(Rounding.UP) * ratio), amount.format)


def amplify(document: Document, old: Node, username: str, title: str) -> Iterator[RuleEffect]:
    """Amplifies a node's allocatable, in place.

    Args:
        document: the node as it is to be.
        old: as it is.
        username: who writes it.
        title: of the node, for errors.

    Raises:
        KoordError: an annotation, or an amount, that cannot be read.
    """
    node = codec.convert(codec.without_nulls(document, title), Node, title)
    said = read_annotations(node)
    annotations: dict[str, Any] = document["metadata"].get("annotations") or {}
    if not said.ratios:
        for key in (keys.RAW_ALLOCATABLE, keys.APPLIED_AMPLIFICATION):
            if annotations.pop(key, None) is not None:
                yield RuleEffect(_RULE, "", f"{annotation.field_of(key)} removed")
        return
    allocatable: dict[str, Any] | None = (document.get("status") or {}).get("allocatable")
    if allocatable is None:
        return
    new = node.status.allocatable
    own = is_of_kubelet(node, old, username)
    try:
        raw = raw_amounts(said, new, old.status.allocatable, own)
        wanted = _wanted(said, raw, new)
    except ValueError as error:
        raise KoordError.wrap(title, "status.allocatable", error) from None
    for name, amount in wanted.items():
        if amount != new[name]:
            allocatable[name] = str(amount)
            source = f"annotation {keys.RESOURCE_AMPLIFICATION_RATIO}"
            yield RuleEffect(_RULE, source, f"status.allocatable[{name}] = {amount}")
    yield from _recorded(annotations, said, raw)


def _wanted(said: AmplifiedNode, raw: ResourceList, new: ResourceList) -> ResourceList:
    wanted = {}
    for name, amount in raw.items():
        ratio = said.ratios.get(name, 1.0)
        before = (said.applied or {}).get(name, 1.0)
        if ratio > 1:
            wanted[name] = amplified(amount, ratio)
        elif before > 1 and new[name] == amplified(amount, before):
            wanted[name] = amount  # is amplified no more
    return wanted


def _recorded(
    annotations: dict[str, Any], said: AmplifiedNode, raw: ResourceList
) -> Iterator[RuleEffect]:
    applied = {name: said.ratios[name] for name in raw if said.ratios.get(name, 1.0) > 1}
    texts = {keys.APPLIED_AMPLIFICATION: annotation.text(applied)}
    if raw and raw != said.raw:
        texts[keys.RAW_ALLOCATABLE] = annotation.text(raw)
    for key, text in sorted(texts.items()):
        if annotations.get(key) != text:
            annotations[key] = text
            yield RuleEffect(_RULE, "", f"{annotation.field_of(key)} = {text}")
