# SPDX-License-Identifier: Apache-2.0
"""Asks a real kube-apiserver all cases of :mod:`tests.controlplane.goldens`.

``python -m tests.controlplane.recording URL TOKEN [FILE ...]`` writes the goldens anew.
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request

from koord.controlplane.kinds import registry
from koord.controlplane.resource import Resource
from tests.controlplane.goldens import (
    DATA,
    NAMESPACE,
    Document,
    Send,
    case_files,
    cases,
    merged,
    run,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
RESOURCES = {
    f"{resource.plural}.{resource.group}".rstrip("."): resource for resource in registry.resources()
}


class Recorder:
    """A connection to a real server, and the namespace in which the cases are made."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str = "") -> None:
        self._url, self._tls, self._token = url, tls, token

    def send(
        self, method: str, path: str, body: Document | None, as_table: bool
    ) -> tuple[int, Document]:
        """One request; the status and the document that came back."""
        headers = {"Accept": TABLE if as_table else "application/json"}
        headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if as_table:
            path += "?includeObject=None"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def record(self, name: str) -> dict[str, list[Document]]:
        """The answers to one file of cases; what they made is deleted."""
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, False)
        return {case["case"]: self._answers(case) for case in cases(name)}

    def _answers(self, case: Document) -> list[Document]:
        collection = collection_path(RESOURCES[case["in"]])
        given = [give(self.send, entry) for entry in case.get("given", ())]
        answers = list(run(case, self.send, collection))
        if answers[0]["code"] == 201:
            item = f"{collection}/{answers[0]['answer']['metadata']['name']}"
            self._remove(item)
        for item in given:
            self._remove(item)
        return answers

    def _remove(self, item: str) -> None:
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        self.send("DELETE", item, now, False)
        self._let_go(item)

    def _let_go(self, item: str) -> None:
        """Ends a deletion that waits for controllers, which do not run here."""
        status, left = self.send("GET", item, None, False)
        if status != 200:
            return
        left["metadata"].pop("finalizers", None)
        if "finalizers" in left.get("spec", {}):
            left["spec"]["finalizers"] = []
            item += "/finalize"
        self.send("PUT", item, left, False)


def give(send: Send, entry: Document) -> str:
    """Makes an object that a case needs, status and all; gives its path."""
    collection, wanted = collection_path(RESOURCES[entry["in"]]), entry["object"]
    status, made = send("POST", collection, wanted, False)
    assert status == 201, made
    item = f"{collection}/{made['metadata']['name']}"
    if "status" in wanted:
        status, made = send(
            "PUT", f"{item}/status", merged(made, {"status": wanted["status"]}), False
        )
        assert status == 200, made
    return item


def collection_path(resource: Resource) -> str:
    """Where objects of a resource are created."""
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    inside = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
    return f"{root}{inside}/{resource.plural}"


def write(name: str, answers: dict[str, list[Document]]) -> None:
    """Stores the answers to one file of cases, one case a line."""
    lines = [f"{json.dumps(case)}: {json.dumps(told)}" for case, told in answers.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (DATA / "goldens" / f"{name}.json").write_text(text)


def main(url: str, token: str, *names: str) -> None:
    """Writes the goldens anew."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    for name in names or case_files():
        write(name, Recorder(url, tls, token).record(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
