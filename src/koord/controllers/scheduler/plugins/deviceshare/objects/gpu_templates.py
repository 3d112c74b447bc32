# SPDX-License-Identifier: Apache-2.0
"""GPU shared resource templates: the only parts in which some cards can be shared.

Rule: docs/reference/devices.md#gpu-shared-resource-templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import parse_documents
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import amount_of
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA_KEY = "data.yaml"


class GPUTemplates:
    """By vendor and model, the parts that a card can be shared in.

    Args:
        by_model: ``vendor-model`` to template name to resources.
    """

    def __init__(self, by_model: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
        self._by_model = by_model

    def matching(self, per_card: Mapping[str, int]) -> dict[str, str]:
        """``vendor-model`` to the template that equals a request, the first by name."""
        by_model: dict[str, str] = {}
        for model, templates in self._by_model.items():
            names = [name for name, resources in templates.items() if dict(resources) == per_card]
            if names:
                by_model[model] = min(names)
        return by_model


def read_templates(data: Mapping[str, str], source: str) -> GPUTemplates:
    """The templates of a ConfigMap.

    Args:
        data: the ConfigMap's; without ``data.yaml`` there are no templates.
        source: for errors.

    Raises:
        KoordError: not YAML, or not templates.
    """
    text = data.get(_DATA_KEY, "")
    documents = parse_documents(text, f"{source}: {_DATA_KEY}")
    if len(documents) > 1:
        raise KoordError(source, _DATA_KEY, f"{len(documents)} documents", "one document")
    document = documents[0] if documents and documents[0] is not None else {}
    return GPUTemplates({
        model: {
            name: _resources(amounts, source, f"{_DATA_KEY}.{model}.{name}")
            for name, amounts in _mapping(templates, source, f"{_DATA_KEY}.{model}").items()
        }
        for model, templates in _mapping(document, source, _DATA_KEY).items()
    })  # fmt: skip


def model_key(vendor: str, model: str) -> str:
    """How templates name a card."""
    return f"{vendor}-{model}"


def _mapping(value: object, source: str, field: str) -> dict[str, object]:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    raise KoordError(source, field, value, "a mapping")


def _resources(value: object, source: str, field: str) -> dict[str, int]:
    found = {}
    for name, amount in _mapping(value, source, field).items():
        try:
            found[name] = amount_of(Quantity.from_wire(amount))
        except ValueError:
            raise KoordError(source, f"{field}.{name}", amount, "an amount") from None
    return {name: amount for name, amount in found.items() if amount}
