# SPDX-License-Identifier: Apache-2.0
"""An image of one static program, as an OCI archive that ``ctr images import`` takes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

_FOLDERS = ("bin", "etc", "tmp", "proc", "sys", "dev")
_APPLETS = ("sh", "sleep", "cat", "echo", "grep", "env")
_OCI = "application/vnd.oci.image"


def write_image(name: str, path: Path, busybox: Path, *entry: str) -> None:
    """Writes an image.

    Args:
        name: with its tag.
        path: the archive.
        busybox: the program.
        entry: what it runs; a shell if nothing.
    """
    layer = _layer(busybox.read_bytes())
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": list(entry) or ["/bin/sh"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs = [json.dumps(config).encode(), layer]
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _blob(f"{_OCI}.config.v1+json", blobs[0]),
        "layers": [_blob(f"{_OCI}.layer.v1.tar", layer)],
    }
    blobs.append(json.dumps(manifest).encode())
    annotations = {"io.containerd.image.name": name}
    whole = {**_blob(f"{_OCI}.manifest.v1+json", blobs[2]), "annotations": annotations}
    index = {"schemaVersion": 2, "manifests": [whole]}
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(archive, "index.json", json.dumps(index).encode())
        for blob in blobs:
            _add(archive, f"blobs/sha256/{_digest(blob)[7:]}", blob)


def _layer(busybox: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        _add(archive, "bin/busybox", busybox, 0o755)
        for applet in _APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return out.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blob(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}
