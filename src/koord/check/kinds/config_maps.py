# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps that koord reads: slo-controller-config, templates of shared GPUs, configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.api.sloconfig import sections
from koord.base.documents import parse_documents
from koord.base.errors import KoordError
from koord.check.kinds.component_configs import KINDS
from koord.check.kinds.slo_config import config_findings
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.controllers.scheduler.plugins.deviceshare.objects.gpu_templates import read_templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

_TEMPLATES = "gpu-shared-resource-templates"


@checker("ConfigMap", "")
def config_map(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """The data of a ConfigMap that some component reads."""
    data = subject.document.get("data")
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        return
    metadata = subject.document.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    kind = labels.get(keys.CONFIGMAP_TYPE) if isinstance(labels, dict) else None
    if sections.CONFIG_MAP_NAME in (subject.name, kind):
        yield from config_findings(data)
    elif subject.name == _TEMPLATES:
        try:
            read_templates(data, subject.title)
        except KoordError as error:
            yield Finding.of(error)._replace(path=f"data.{error.field}")
    for key, text in data.items():
        for kind, function in KINDS.items():
            if kind in text:
                for finding in _configuration(text, kind, function, subject, world):
                    yield finding._replace(path=f"data[{key}].{finding.path}".rstrip("."))


def _configuration(
    text: str, kind: str, function: object, subject: Subject, world: ObjectIndex
) -> Iterator[Finding]:
    """A component's configuration as a ConfigMap holds it."""
    try:
        documents = parse_documents(text, subject.title)
    except KoordError as error:
        yield Finding("", error.value, error.expected)
        return
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == kind:
            assert callable(function)
            yield from function(document, subject.title)
    del world
