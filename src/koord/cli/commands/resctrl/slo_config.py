# SPDX-License-Identifier: Apache-2.0
"""The part of slo-controller-config that ``koord resctrl`` needs: which classes ask for what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from koord.api import ConfigMap, QoSClass, codec, decode_as
from koord.api.sloconfig import sections
from koord.api.sloconfig.defaults import recommended_qos
from koord.api.sloconfig.overlay import overlay
from koord.api.sloconfig.rules import problems
from koord.api.sloconfig.sections import QOS, SECTIONS
from koord.api.sloconfig.unknown import Unknown, unknown_fields
from koord.base.documents import parse_documents, read_text
from koord.base.errors import KoordError
from koord.kernels.resctrl import ClassPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.qos_strategy import ResourceQOSStrategy

_SECTION = SECTIONS[QOS]
_FIELD = f"data.{QOS}"
_LEVELS = {_SECTION.cluster_field.casefold(), _SECTION.nodes_field.casefold()}


def enabled_classes(path: str) -> tuple[list[ClassPolicy], list[str]]:
    """The classes whose resctrlQOS is enabled cluster-wide, the node agent's defaults filled in.

    Args:
        path: the slo-controller-config ConfigMap, or the bare JSON of its resource-qos-config.

    Returns:
        The classes, and what a person should know: names without effect, that nothing is enabled.

    Raises:
        KoordError: the file cannot be read, or a field has a wrong type or value.
    """
    text = _section_text(path)
    document = codec.parse_json(text, path, _FIELD)
    if not isinstance(document, dict) or _LEVELS.isdisjoint(key.casefold() for key in document):
        raise KoordError(path, _FIELD, document, f"an object with {_SECTION.cluster_field}")
    top = sections.document(_SECTION, text, path)
    config = sections.typed(_SECTION, top, path)
    found = list(_policies(overlay(recommended_qos(), config.cluster), path))
    warnings = [_without_effect(path, each) for each in unknown_fields(_SECTION, top)]
    if not found:
        warnings.append(f"{path}: no class has resctrlQOS with enable: true, so nothing is planned")
    return found, warnings


def _without_effect(path: str, unknown: Unknown) -> str:
    hint = f"; did you mean {unknown.meant}?" if unknown.meant else ""
    return f"{path}: {unknown.path}: no field of that name, it has no effect{hint}"


def _section_text(path: str) -> str:
    documents = parse_documents(read_text(Path(path)), path)
    maps = [
        d
        for d in documents
        if isinstance(d, dict) and (d.get("kind") == "ConfigMap" or "data" in d)
    ]
    if not maps:
        return codec.to_json(next(iter(documents), None)).decode()
    texts = (decode_as(document, ConfigMap, path).data.get(QOS) for document in maps)
    text = next((text for text in texts if text is not None), None)
    if text is None:
        raise KoordError(path, _FIELD, None, "the JSON text of this section")
    return text


def _policies(strategy: ResourceQOSStrategy, path: str) -> Iterator[ClassPolicy]:
    # The order in which the agent sets up the groups.
    classes = {
        QoSClass.LSR: strategy.lsr_class,
        QoSClass.LS: strategy.ls_class,
        QoSClass.BE: strategy.be_class,
    }
    for name, quality in classes.items():
        asked = quality.resctrl_qos if quality is not None else None
        if asked is None or not asked.enable:
            continue
        where = f"{_FIELD}.{_SECTION.cluster_field}.{name.lower()}Class.resctrlQOS"
        for error in problems(asked, path, where):
            raise error
        yield ClassPolicy(
            name.value,
            asked.cat_range_start_percent,
            asked.cat_range_end_percent,
            asked.mba_percent,
        )
