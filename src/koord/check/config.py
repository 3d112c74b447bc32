# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps that koord reads: slo-controller-config, templates of shared GPUs, configurations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.api.sloconfig import checks, sections
from koord.base.documents import parse_documents
from koord.base.errors import KoordError
from koord.check.components import KINDS
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.controllers.scheduler.plugins.deviceshare.templates import read_templates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.check.subject import Subject
    from koord.check.world import World

_TEMPLATES = "gpu-shared-resource-templates"
# Whether two node strategies overlap is asked of every pair.
_MOST_STRATEGIES = 500
_NO_EFFECT = re.compile(r": (data\..*) has no effect(?:, did you mean (.*)\?)?", re.DOTALL)


@checker("ConfigMap", "")
def config_map(subject: Subject, world: World) -> Iterator[Finding]:
    """The data of a ConfigMap that some component reads."""
    data = subject.document.get("data")
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        return
    metadata = subject.document.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    kind = labels.get(keys.CONFIGMAP_TYPE) if isinstance(labels, dict) else None
    if sections.CONFIG_MAP_NAME in (subject.name, kind):
        yield from slo_findings(data)
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


def slo_findings(data: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong with the data of slo-controller-config."""
    strategies = max((text.casefold().count("nodeselector") for text in data.values()), default=0)
    if strategies > _MOST_STRATEGIES:
        expected = f"at most {_MOST_STRATEGIES} node strategies; more are not checked"
        yield Finding.warning("data", strategies, expected)
        return
    for error in checks.validate(data, ""):
        yield Finding.of(error)
    for line in checks.warnings(data, ""):
        match = _NO_EFFECT.fullmatch(line)
        if match is not None:
            name = match[1].rpartition(".")[2]
            expected = "a known field" + (f", such as {match[2]}" if match[2] else "")
            yield Finding.warning(match[1], name, expected)


def _configuration(
    text: str, kind: str, function: object, subject: Subject, world: World
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
