# SPDX-License-Identifier: Apache-2.0
"""Volumes of a pod, laid out as a kubelet does."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from tests.deploy.admin import Admin, Document

TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


class Volumes:
    """The volumes of one pod.

    Attributes:
        sources: folder or file of each, by the volume's name.
    """

    def __init__(self, admin: Admin, pod: Document, folder: Path, host: Path) -> None:
        self._admin, self._pod, self._folder, self._host = admin, pod, folder, host
        self._group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
        self.sources = {each["name"]: self._lay(each) for each in pod["spec"].get("volumes") or ()}

    def token(self, authority: Path) -> Path:
        """The folder of the service account's token, made for this very pod."""
        metadata, account = self._pod["metadata"], self._pod["spec"].get("serviceAccountName")
        bound = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account or 'default'}"
        made = self._admin.create(
            f"{path}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"boundObjectRef": bound},
            },
        )
        texts = {
            "token": made["status"]["token"].encode(),
            "ca.crt": authority.read_bytes(),
            "namespace": metadata["namespace"].encode(),
        }
        return self._files("token", texts, 0o644)

    def _lay(self, volume: Document) -> Path:
        if "hostPath" in volume:
            place: Path = self._host / Path(volume["hostPath"]["path"]).relative_to("/")
            place.mkdir(parents=True, exist_ok=True)
            return place
        if "emptyDir" in volume:
            place = self._folder / volume["name"]
            place.mkdir(parents=True)
            place.chmod(0o777)
            return place
        namespace = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}"
        if "configMap" in volume:
            found = self._admin.get(f"{namespace}/configmaps/{volume['configMap']['name']}")
            texts = {key: text.encode() for key, text in (found.get("data") or {}).items()}
            return self._files(volume["name"], texts, volume["configMap"].get("defaultMode", 0o644))
        secret: dict[str, Any] = volume["secret"]
        found = self._admin.get(f"{namespace}/secrets/{secret['secretName']}")
        texts = {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}
        return self._files(volume["name"], texts, secret.get("defaultMode", 0o644))

    def _files(self, name: str, texts: dict[str, bytes], mode: int) -> Path:
        place = self._folder / name
        place.mkdir(parents=True)
        for key, text in texts.items():
            file = place / key
            file.write_bytes(text)
            file.chmod(mode if self._group is None else mode | 0o440)
            os.chown(file, 0, self._group or 0)
        return place
