# SPDX-License-Identifier: Apache-2.0
"""Becomes a container's process: ``python -m tests.deploy.pod_root SPEC``, in its own namespaces.

Mounts what the container sees below a root of its own, goes there, gives up what its security
context takes away and runs its command in this process's place, so that who started it can signal
and await it. What a runtime does beside that it does not: no seccomp profile, no namespace of
processes.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_NO_NEW_PRIVILEGES = 38
_DEVICES = ("null", "zero", "full", "random", "urandom")


def mount(*arguments: object) -> None:
    """mount(8)."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


def bind(source: Path, target: Path, read_only: bool) -> None:
    """Shows a file or folder at another place."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--bind", source, target)
    if read_only:
        mount("-o", "remount,bind,ro", target)


def lay_layers(root: Path, image: Path) -> None:
    """An image's root, with a layer of the container's own above it."""
    above = root.parent / "layer"
    above.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", "mode=0755", "layer", above)
    for folder in ("upper", "work"):
        (above / folder).mkdir()
    layers = f"lowerdir={image},upperdir={above / 'upper'},workdir={above / 'work'}"
    mount("-t", "overlay", "-o", layers, "image", root)


def lay_folders(root: Path, folders: list[str]) -> None:
    """Folders of this machine, at their own places."""
    mount("-t", "tmpfs", "-o", "mode=0755", "root", root)
    for source in folders:
        path = Path(source)
        target = root / path.relative_to("/")
        if path.is_symlink():
            target.symlink_to(path.readlink())
        else:
            bind(path, target, read_only=True)


def build(root: Path, spec: dict[str, Any]) -> None:
    """The file system that the container sees."""
    if spec["image_root"]:
        lay_layers(root, Path(spec["image_root"]))
    else:
        lay_folders(root, spec["folders"])
    for folder in ("dev", "proc", "sys", "tmp", "etc", "run"):
        (root / folder).mkdir(mode=0o755, exist_ok=True)
    for device in _DEVICES:
        bind(Path("/dev", device), root / "dev" / device, read_only=False)
    bind(Path("/proc"), root / "proc", read_only=True)
    for volume in spec["mounts"]:
        target = root / Path(volume["path"]).relative_to("/")
        bind(Path(volume["source"]), target, volume["read_only"])
    if spec["read_only_root"]:
        mount("-o", "remount,ro", root)


def enter(root: Path, spec: dict[str, Any]) -> None:
    """Goes into the root and gives up what the container may not have."""
    os.chroot(root)
    os.chdir("/")
    if not spec["escalation"]:
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.setgroups(spec["groups"])
    os.setgid(spec["group"])
    os.setuid(spec["user"])


def main(path: Path) -> None:
    """Never returns."""
    spec = json.loads(path.read_text(encoding="utf-8"))
    root = Path(spec["root"])
    build(root, spec)
    enter(root, spec)
    os.environ["PATH"] = spec["environment"]["PATH"]
    os.execvpe(spec["command"][0], spec["command"], spec["environment"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
