# SPDX-License-Identifier: Apache-2.0
"""What `.ci/tidy` looks at again. Its programs are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# As cmake writes it, with the flags of a file that a test may change.
CMAKE = """#!/bin/sh
for source in a b; do
  file=$PWD/cpp/src/$source.cpp
  echo "\\"command\\": \\"c++ -I$PWD/cpp/include $(cat flags) -c $file\\","
done >build/tidy/compile_commands.json
"""
# A file with the word "bad" does not pass.
TIDY = """#!/bin/sh
if [ "$1" = --version ]; then cat version; exit; fi
for file; do :; done
echo "$file" >>looked
! grep bad "$file"
"""
COMPILER = "#!/bin/sh\necho some compiler\n"
FILES = {
    "bin/cmake": CMAKE, "bin/clang-tidy": TIDY, "bin/c++": COMPILER, "flags": "-O3", "version": "1",
    ".clang-tidy": "Checks: all", "cpp/include/koord/a.hpp": "// a", "cpp/src/c.hpp": "// c",
    "cpp/src/a.cpp": "int a;", "cpp/src/b.cpp": "int b;",
}  # fmt: skip
BOTH = ["cpp/src/a.cpp", "cpp/src/b.cpp"]

Looked = Callable[[], tuple[bool, list[str]]]


def lay_out(folder: Path) -> Looked:
    """A checkout in `folder`; what is given runs its `.ci/tidy` with a cache beside it."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (folder / "build/tidy").mkdir(parents=True)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/tidy", folder / ".ci/tidy")
    for command in (["init", "-q"], ["add", "cpp"]):
        subprocess.run(["git", *command], cwd=folder, check=True)

    def looked() -> tuple[bool, list[str]]:
        """Whether it passed, and what it looked at."""
        (folder / "looked").write_text("")
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        env = {"PATH": path, "KOORD_TIDY_CACHE": str(folder.parent / "cache")}
        done = subprocess.run([folder / ".ci/tidy"], env=env, capture_output=True, timeout=60)
        return done.returncode == 0, sorted((folder / "looked").read_text().split())

    return looked


@pytest.fixture
def looked(tmp_path: Path) -> Looked:
    return lay_out(tmp_path / "one")


def test_what_passed_is_not_looked_at_again_in_any_checkout(looked: Looked, tmp_path: Path) -> None:
    assert looked() == (True, BOTH)
    assert looked() == (True, [])
    assert lay_out(tmp_path / "another")() == (True, [])


def test_a_source_that_changed_is(looked: Looked, tmp_path: Path) -> None:
    looked()
    (tmp_path / "one/cpp/src/a.cpp").write_text("int c;")
    assert looked() == (True, BOTH[:1])


@pytest.mark.parametrize(
    "file", ["cpp/include/koord/a.hpp", "cpp/include/new.hpp", "cpp/src/c.hpp", ".clang-tidy",
             "flags", "version"]
)  # fmt: skip
def test_all_are_where_something_that_all_read_changed(
    looked: Looked, tmp_path: Path, file: str
) -> None:
    looked()
    (tmp_path / "one" / file).write_text("changed")
    assert looked() == (True, BOTH)


def test_what_does_not_pass_fails_each_time(looked: Looked, tmp_path: Path) -> None:
    (tmp_path / "one/cpp/src/b.cpp").write_text("bad")
    assert looked() == (False, BOTH)
    assert looked() == (False, BOTH[1:])
