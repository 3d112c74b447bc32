# SPDX-License-Identifier: Apache-2.0
"""A complete slo-controller-config with every field explained, made from the types.

``python -m koord.api.sloconfig.example`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import msgspec

from koord.api import codec
from koord.api.fielddocs import field_docs, summary
from koord.api.kinds.qos_strategy import ResourceQOS
from koord.api.sloconfig import sections
from koord.api.sloconfig.defaults import default_strategy, recommended_qos
from koord.api.sloconfig.rules import BOUNDS, CHOICES

_HEAD = f"""\
# Every section and field of {sections.CONFIG_MAP_NAME}. What is left out keeps the value shown in
# the cluster level, so a real one holds only what differs. Keys match without regard to case.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {sections.CONFIG_MAP_NAME}
  namespace: {sections.CONFIG_MAP_NAMESPACE}
  labels:
    koordinator.sh/configmap-type: slo-controller-config
data:
"""
_SELECTED = {
    "name": "example",
    "nodeSelector": {"matchLabels": {"example.com/pool": "example"}},
}


def example() -> str:
    """The ConfigMap as a YAML text whose comments explain each section and each field."""
    return _HEAD + "".join(_section(section) for section in sections.SECTIONS.values())


def example_data() -> dict[str, str]:
    """The same ConfigMap's data: JSON text by section."""
    return {key: _text(section) for key, section in sections.SECTIONS.items()}


def _section(section: sections.Section) -> str:
    lines = [f"  # {summary(section.strategy)}"]
    lines += [f"  #   {line}" for line in _explained(section.strategy, "")]
    body = "\n".join(f"    {line}" for line in _text(section).splitlines())
    return "\n".join(lines) + f"\n  {section.key}: |\n{body}\n"


def _text(section: sections.Section) -> str:
    """The section with its defaults at the cluster level and one node level that sets nothing."""
    strategy = recommended_qos() if section.key == sections.QOS else default_strategy(section.key)
    cluster = codec.to_document(strategy)
    levels = {section.cluster_field: cluster} if section.cluster_field else cluster
    document = {**levels, section.nodes_field: [_SELECTED]}
    return msgspec.json.format(codec.to_json(document), indent=2).decode()


def _explained(kind: type[msgspec.Struct], path: str) -> Iterator[str]:
    docs = field_docs(kind)
    bounds, choices = BOUNDS.get(kind, {}), CHOICES.get(kind, {})
    shown_class = False
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        limits = str(bounds[name]) if name in bounds else ", ".join(choices.get(name, ()))
        text = "; ".join(part for part in (docs.get(name, "").rstrip("."), limits) if part)
        inner = _struct_in(field.type)
        if inner is ResourceQOS:
            # The classes have the same fields; one explanation serves all.
            yield f"{path}{name}:" + (" as above" if shown_class else "")
            if shown_class:
                continue
            shown_class = True
        else:
            yield f"{path}{name}: {text}".rstrip(": ")
        if inner is not None:
            yield from _explained(inner, f"{path}  ")


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct that a field holds, or whose list or map it holds."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    if get_origin(annotation) is Annotated:
        return _struct_in(get_args(annotation)[0])
    for argument in get_args(annotation):
        found = _struct_in(argument)
        if found is not None:
            return found
    return None


if __name__ == "__main__":
    print(example(), end="")
