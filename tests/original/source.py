# SPDX-License-Identifier: Apache-2.0
"""The original's source, wherever it lies, and the programs that are built from it.

``KOORD_ORIGINAL`` names a checkout; by default it is looked for in the user's cache. Programs lie
in the cache, each commit's in a folder of its own. Nothing of either comes into this repository.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.real.binaries import MissingProgramError, go

MODULE = "module github.com/koordinator-sh/koordinator"
# What is built, and with which Go command.
_BUILD, _TEST = ("build",), ("test", "-c", "-vet=off")
SPECS, BENCHMARK, COMPONENTS = "e2e.test", "benchmark", ("koord-scheduler", "koord-manager")
AGENT = "koordlet"
# All that work on a cluster with nodes.
PROGRAMS = (*COMPONENTS, "koord-descheduler", AGENT)
_PROGRAMS = {
    SPECS: (_TEST, "./test/e2e"),
    **{name: (_BUILD, f"./cmd/{name}") for name in PROGRAMS},
    BENCHMARK: (_BUILD, "./test/perf/cmd/benchmark"),
}
_FLAGS = ("-p", "2", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")


class MissingSourceError(Exception):
    """There is no checkout, or no Go that builds it; one line that says what helps."""


def _cache() -> Path:
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user) / "koord" / "original"


@dataclass(frozen=True)
class Source:
    """A checkout of the original.

    Attributes:
        folder: with its ``go.mod``.
        commit: that is checked out.
    """

    folder: Path
    commit: str

    @classmethod
    def at_hand(cls) -> Source:
        """The checkout on this machine.

        Raises:
            MissingSourceError: there is none.
        """
        named = os.environ.get("KOORD_ORIGINAL")
        folder = Path(named).absolute() if named else _cache() / "source"
        module = folder / "go.mod"
        if not module.is_file() or MODULE not in module.read_text(encoding="utf-8").splitlines():
            raise MissingSourceError(
                f"no source of the original in {folder}: clone its repository there, "
                "or name a checkout in KOORD_ORIGINAL"
            )
        call = ["git", "rev-parse", "HEAD"]
        told = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
        if told.returncode:
            raise MissingSourceError(f"{folder} is no git checkout: {told.stderr.strip()}")
        return cls(folder, told.stdout.strip())

    def program(self, name: str) -> Path:
        """Where a program lies once it is built."""
        return _cache() / f"programs-{self.commit[:12]}" / name

    def read(self, path: str) -> str:
        """The text of one of its files."""
        return (self.folder / path).read_text(encoding="utf-8")

    def build(self, names: Iterable[str], tell: Callable[[str], None]) -> None:
        """Builds those programs that are not there yet, which takes minutes the first time.

        Args:
            names: of `PROGRAMS`, `SPECS` and `BENCHMARK`.
            tell: gets a line for each that is built.

        Raises:
            MissingSourceError: no Go, or it refused, having said why on stderr.
        """
        for name in names:
            command, package = _PROGRAMS[name]
            output = self.program(name)
            if output.is_file():
                continue
            tell(f"building {name}")
            started = time.monotonic()
            output.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=output.parent, prefix=".building-") as scratch:
                made = Path(scratch) / name
                # Only the agent has parts in C: counters of the kernel, and libraries of GPUs.
                settings = self._libpfm() if name == AGENT else {"CGO_ENABLED": "0"}
                self._go(*command, *_FLAGS, "-o", str(made), package, **settings)
                made.rename(output)
            tell(f"built {name} in {time.monotonic() - started:.0f} s")

    def _libpfm(self) -> dict[str, str]:
        """Builds the library that the agent is linked against, which its source brings along.

        Linked statically, so that the program runs where the library is not. It stays beside the
        programs: Go compiles all that is above C anew where its folder has another name.
        """
        (archive,) = (self.folder / "hack").glob("libpfm-*.tar.gz")
        kept = self.program(archive.name.removesuffix(".tar.gz"))
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".building-") as scratch:
                subprocess.run(["tar", "-xzf", str(archive), "-C", scratch], check=True)
                made = Path(scratch) / kept.name
                make = ["make", "-s", "-C", str(made / "lib"), "CONFIG_PFMLIB_SHARED=n"]
                call = ["nice", "-n", "10", *make]
                if subprocess.run(call, stdout=subprocess.DEVNULL, check=False).returncode:
                    raise MissingSourceError(f"make failed in {kept.name} of {archive}")
                made.rename(kept)
        return {
            "CGO_ENABLED": "1",
            "CGO_CFLAGS": f"-I{kept / 'include'}",
            "CGO_LDFLAGS": f"-L{kept / 'lib'}",
        }

    def _go(self, *arguments: str, **settings: str) -> None:
        try:
            command = str(go()[0])
        except MissingProgramError as error:
            raise MissingSourceError(str(error)) from None
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", **settings}
        # Others work on this machine too.
        call = ["nice", "-n", "10", command, *arguments]
        if subprocess.run(call, cwd=self.folder, env=environment, check=False).returncode:
            raise MissingSourceError(f"go {' '.join(arguments[:2])} failed in {self.folder}")
