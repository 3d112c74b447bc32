# SPDX-License-Identifier: Apache-2.0
"""What admission knows while it is asked about manifests: objects of a cluster, or of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api import codec, objects
from koord.api.definitions import priority_classes
from koord.api.kinds.cluster import ConfigMap, Namespace, PriorityClass
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaProfile, GroupQuota
from koord.api.kinds.registry import KINDS, kind_of_type
from koord.base.errors import KoordError
from koord.check import file_reader
from koord.check.runner import templates
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.options import WebhookOptions
from koord.controllers.webhook.preview.admission_preview import AdmissionPreview, ObjectReview

if TYPE_CHECKING:
    from koord.api.kinds.registry import Kind
    from koord.check.live_cluster import LiveCluster
    from koord.check.subject import Subject

_KNOWN = (
    ClusterColocationProfile, PriorityClass, Namespace, ElasticQuota, GroupQuota,
    ElasticQuotaProfile,
)  # fmt: skip
_APPLIED_FIRST = (ClusterColocationProfile, PriorityClass, Namespace)
"""What the files under review bring counts as if it had been applied."""
_POD = next(kind for kind in KINDS if kind.name == "Pod")


@dataclass(frozen=True)
class ReviewedObject:
    """One object of a file.

    Attributes:
        file: where it stands.
        maker: the workload whose pod it is; empty for an object of its own.
        review: what becomes of it.
    """

    file: str
    maker: str
    review: ObjectReview


class ReviewWorld:
    """Reads what there is, and reviews.

    Args:
        gates: as koord-manager takes them.

    Attributes:
        notes: what the user should know besides, a line each.

    Raises:
        KoordError: an unknown gate.
    """

    def __init__(self, gates: str) -> None:
        self._options = WebhookOptions()
        self._preview = AdmissionPreview(feature_gates(gates), self._options)
        self._subjects: list[Subject] = []
        self.notes: list[str] = []

    def read(self, files: list[str]) -> None:
        """Reads the manifests that are asked about.

        Raises:
            KoordError: a file cannot be read.
        """
        for name in files:
            self._subjects += _subjects(name)

    def know_files(self, files: list[str]) -> None:
        """Takes files for all that there is; koord's own priority classes are there as well.

        Raises:
            KoordError: a file, or an object in it, cannot be read.
        """
        for document in priority_classes():
            self._preview.put(codec.convert(document, PriorityClass, "PriorityClass"))
        for name in files:
            for subject in _subjects(name):
                item = subject.typed
                if isinstance(item, KoordError):
                    raise item.within(name)
                if isinstance(item, (*_KNOWN, ConfigMap)):
                    self._preview.put(item)

    def know_cluster(self, live: LiveCluster) -> None:
        """Reads what a cluster has.

        Raises:
            ApiError: it refuses to tell.
            ConnectionError: it cannot be reached.
        """
        for kind in _KNOWN:
            for item in live.all(kind_of_type(kind)):
                self._preview.put(item)
        found = live.get(
            kind_of_type(ConfigMap), self._options.pod_enhanced_validator_config_name,
            self._options.pod_enhanced_validator_config_namespace,
        )  # fmt: skip
        if found is not None:
            self._preview.put(found)

    async def reviewed(self, namespace: str) -> list[ReviewedObject]:
        """What becomes of each object, and of each pod that a workload would make.

        Args:
            namespace: of objects that name none.
        """
        for subject in self._subjects:
            if isinstance(subject.typed, _APPLIED_FIRST):
                self._preview.put(subject.typed)
        found = []
        for subject in self._subjects:
            kind = _kind(subject)
            if kind is not None and (kind.custom or kind.name in ("Pod", "ConfigMap", "Node")):
                made = await self._preview.review(subject.document, kind, namespace)
                found.append(ReviewedObject(subject.file, "", made))
            if kind is not None and kind.custom:
                continue
            for template in templates(subject):
                document = _pod(template, subject)
                made = await self._preview.review(document, _POD, subject.namespace or namespace)
                found.append(ReviewedObject(subject.file, subject.title, made))
        self._note(found)
        return found

    def _note(self, reviewed: list[ReviewedObject]) -> None:
        self.notes += [message for _, message in self._preview.notes]
        namespaces = {
            each.review.submitted["metadata"]["namespace"]
            for each in reviewed
            if each.review.submitted.get("metadata", {}).get("namespace")
        }
        self.notes += [
            f"namespace {name} is not known: no profile with a namespaceSelector is for its pods"
            for name in sorted(namespaces)
            if not self._preview.knows_namespace(name)
        ]


def _subjects(name: str) -> list[Subject]:
    contents = file_reader.contents(file_reader.read_bytes(name), name)
    for problem in contents.problems:
        if not contents.subjects:
            where = f"{problem.file}:{problem.line}"
            raise KoordError(where, problem.path, problem.value, problem.expected)
    return contents.subjects


def _kind(subject: Subject) -> Kind | None:
    try:
        return objects.find_kind(subject.document, subject.title)
    except KoordError:
        return None


def _pod(template: Subject, maker: Subject) -> dict[str, object]:
    """The pod of a template, named as its maker names pods."""
    metadata = dict(template.document.get("metadata") or {})
    metadata.pop("name", None)
    metadata["generateName"] = f"{maker.name}-"
    return {**template.document, "metadata": metadata}
