# SPDX-License-Identifier: Apache-2.0
"""Builds what is missing of the real control plane: ``python -m tests.real.build``.

Sources come from the Go module proxy at the versions that each ``go.mod`` pins and ``go.sum``
checks. Binaries go to a cache outside the checkout (see `binaries.cache_folder`), each module's
into a folder named after everything that went into it, so that nothing there is ever out of date.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.real.binaries import HERE, MODULES, MissingProgramError, Module, cache_folder, find, go


def provided(module: Module) -> bool:
    """Whether all its programs are there, built or through ``KUBEBUILDER_ASSETS``."""
    try:
        for program in module.files:
            find(program)
    except MissingProgramError:
        return False
    return True


def run_go(module: Module, *arguments: str) -> str:
    """Runs Go in a module's folder; gives what it prints."""
    # Pure Go, and no download of another toolchain than the one that was checked. What debuggers
    # read, the linker leaves out, and the compiler need not write.
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-gcflags=all=-dwarf=false",
    }
    call = [str(go()[0]), *arguments]
    folder = HERE / module.folder
    done = subprocess.run(call, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def build(module: Module) -> None:
    """Builds a module's programs; another process that does the same at the same time is no harm.

    Raises:
        MissingProgramError: no Go, or one that is too old.
        subprocess.CalledProcessError: Go refused, having said why on stderr.
    """
    output = module.output(go()[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".building-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        for name, package in module.programs.items():
            run_go(module, "build", *module.flags, "-o", str(made / name), package)
        for name, parts in module.texts.items():
            folder = Path(run_go(module, "list", "-m", "-f", "{{.Dir}}", module.requires).strip())
            texts = [(folder / part).read_text(encoding="utf-8") for part in parts]
            (made / name).write_text("---\n".join(texts), encoding="utf-8")
        try:
            made.rename(output)
        except OSError:
            # Somebody else was first, or an incomplete folder from elsewhere is in the way.
            if not all((output / name).is_file() for name in module.files):
                shutil.rmtree(output)
                made.rename(output)


def main() -> int:
    """Builds all modules and prints what each took; 1 when one could not be built."""
    print(f"control plane binaries: {cache_folder()}", flush=True)
    started = time.monotonic()
    for module in MODULES:
        names = ", ".join(module.files)
        if provided(module):
            print(f"  {module.folder}: there ({names})", flush=True)
            continue
        before = time.monotonic()
        try:
            build(module)
        except (MissingProgramError, subprocess.CalledProcessError, OSError) as error:
            print(f"error: {module.folder}: {error}", file=sys.stderr)
            return 1
        print(
            f"  {module.folder}: built in {time.monotonic() - before:.0f} s ({names})", flush=True
        )
    print(f"  all: {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
