# SPDX-License-Identifier: Apache-2.0
"""A software bill of materials, in the form of SPDX 2.3."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

from tests.release.contents import Part

Document = dict[str, Any]
_URLS = {"Debian": "pkg:deb/debian/{0}@{1}?distro=bookworm", "PyPI": "pkg:pypi/{0}@{1}"}


def document(name: str, version: str, found: list[Part], epoch: int) -> Document:
    """What an artifact has in it: the same text for the same parts.

    Args:
        name: of the artifact.
        found: its parts; what came with no package is left out.
        epoch: seconds, of its making.
    """
    packages = [_package(each) for each in sorted(found, key=_key) if each.origin]
    digest = hashlib.sha256(repr((name, version, packages)).encode()).hexdigest()
    subject = {
        "SPDXID": "SPDXRef-artifact",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}",
        "documentNamespace": f"urn:koord:sbom:{digest}",
        "creationInfo": {
            "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: tests.release.sbom"],
        },
        "packages": [subject, *packages],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-artifact"),
            *(_relation("SPDXRef-artifact", "CONTAINS", each["SPDXID"]) for each in packages),
        ],
    }


def _key(part: Part) -> tuple[str, str]:
    return part.origin, part.name


def _package(part: Part) -> Document:
    licence = part.licence if re.fullmatch(r"[\w.+-]+( (AND|OR) [\w.+-]+)*", part.licence) else ""
    place = _URLS[part.origin].format(part.name, part.version)
    return {
        "SPDXID": f"SPDXRef-{part.origin}-{re.sub(r'[^A-Za-z0-9.-]', '-', part.name)}",
        "name": part.name,
        "versionInfo": part.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence or "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": place,
            }
        ],
    }


def _relation(one: str, kind: str, other: str) -> Document:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
