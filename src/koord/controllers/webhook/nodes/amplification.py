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
        ratios: by resource.
        raw: what it offered before; None where nobody says, an error where it cannot be read.
        applied: the ratios that made its allocatable of ``raw``; None where nobody says.
    """

    ratios: Mapping[str, float]
    raw: ResourceList | KoordError | None
    applied: Mapping[str, float] | None


def read_annotations(node: Node) -> AmplifiedNode:
    """See :class:`AmplifiedNode`; what was applied counts as unknown where it cannot be read.

    Raises:
        KoordError: ratios cannot be read.
    """
    try:
        applied = annotation.read(node, keys.APPLIED_AMPLIFICATION, dict[str, float])
    except KoordError:
        applied = None
    raw: ResourceList | KoordError | None
    try:
        raw = nodes.raw_allocatable(node)
    except KoordError as error:
        raw = error
    return AmplifiedNode(nodes.amplification_ratios(node), raw, applied)


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
    record: AmplifiedNode, new: ResourceList, old: ResourceList, own: bool
) -> ResourceList:
    """What the machine itself offers.

    Args:
        record: by the annotations.
        new: allocatable as it is written.
        old: allocatable as it is.
        own: whether the kubelet writes it.

    Raises:
        KoordError: it has to be what an annotation says that cannot be read.
    """
    written = {name: new[name] for name in AMPLIFIED if name in new}
    if record.raw is None or own:
        return written
    # Koordinator's webhook does not say what it applied: a change is the kubelet's.
    before = {name: old[name] for name in AMPLIFIED if name in old}
    if record.applied is None and before != written:
        return written
    if isinstance(record.raw, KoordError):
        raise record.raw
    if record.applied is None:
        return record.raw
    return {
        name: record.raw[name] if _is_ours(record, record.raw.get(name), name, amount) else amount
        for name, amount in written.items()
    }


def _is_ours(record: AmplifiedNode, raw: Quantity | None, name: str, amount: Quantity) -> bool:
    """Whether an amount is what the raw one was amplified to, by what was applied or is to be."""
    ratios = (of.get(name, 1.0) for of in (record.applied or {}, record.ratios))
    return raw is not None and amount in [amplified(raw, ratio) for ratio in ratios]


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
    annotations: dict[str, Any] = document["metadata"].get("annotations") or {}
    if not annotations.get(keys.RESOURCE_AMPLIFICATION_RATIO):
        for key in (keys.RAW_ALLOCATABLE, keys.APPLIED_AMPLIFICATION):
            if annotations.pop(key, None) is not None:
                yield RuleEffect(_RULE, "", f"{annotation.field_of(key)} removed")
        return
    allocatable: dict[str, Any] | None = (document.get("status") or {}).get("allocatable")
    if allocatable is None:
        return
    node = codec.convert(codec.without_nulls(document, title), Node, title)
    record = read_annotations(node)
    new = node.status.allocatable
    own = is_of_kubelet(node, old, username)
    try:
        raw = raw_amounts(record, new, old.status.allocatable, own)
        wanted = _wanted(record, raw, new)
    except ValueError as error:
        raise KoordError.wrap(title, "status.allocatable", error) from None
    for name, amount in wanted.items():
        if amount != new.get(name):
            allocatable[name] = str(amount)
            source = f"annotation {keys.RESOURCE_AMPLIFICATION_RATIO}"
            yield RuleEffect(_RULE, source, f"status.allocatable[{name}] = {amount}")
    yield from _recorded(annotations, record, raw)


def _wanted(record: AmplifiedNode, raw: ResourceList, new: ResourceList) -> ResourceList:
    wanted = {}
    for name in AMPLIFIED:
        amount = raw.get(name)
        if amount is None:
            continue
        ratio = record.ratios.get(name, 1.0)
        before = (record.applied or {}).get(name, 1.0)
        if ratio > 1:
            wanted[name] = amplified(amount, ratio)
        elif before > 1 and new.get(name) == amplified(amount, before):
            wanted[name] = amount  # is amplified no more
    return wanted


def _recorded(
    annotations: dict[str, Any],
    record: AmplifiedNode,
    raw: ResourceList,
) -> Iterator[RuleEffect]:
    ratios = record.ratios
    applied = {name: ratios[name] for name in AMPLIFIED if name in raw and ratios.get(name, 1) > 1}
    texts = {keys.APPLIED_AMPLIFICATION: annotation.text(applied)}
    if raw and raw != record.raw:
        texts[keys.RAW_ALLOCATABLE] = annotation.text(raw)
    for key, text in sorted(texts.items()):
        if annotations.get(key) != text:
            annotations[key] = text
            yield RuleEffect(_RULE, "", f"{annotation.field_of(key)} = {text}")
