# SPDX-License-Identifier: Apache-2.0
"""Digests of what koord answers: ``python -m tests.release.answers [NAME...]``, by any Python.

The inputs of all vectors of kernels (docs/vectors.md) and the README's tables of the openb trace,
every figure to its last bit, as JSON: two builds that agree print the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.project.code_blocks import blocks
from tests.vectors.area import load, read_vectors

ROOT = Path(__file__).resolve().parents[2]
# Those that kernels in C++ answer.
AREAS = ("device", "gang", "loadaware", "quota", "resctrl", "reservation", "topology")
TABLES = "openb"
# The variable that names the words which run koord's program, where it is not beside Python.
PROGRAM = "KOORD_PROGRAM"


def digest(value: Any) -> str:
    """Of a JSON value; floats are written so that they read back the same."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def vectors(name: str) -> str:
    """Of koord's answers to the inputs of an area."""
    area = load(name)
    pair = getattr(area, "pair", lambda case, theirs: (case, theirs))
    cases = (pair(each["in"], each["out"])[0] for each in read_vectors(name)["cases"])
    return digest([area.answer(json.loads(json.dumps(each))) for each in cases])


def first_example() -> list[str]:
    """The first command that the README has for everyone to run, but for its report."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(each for each in blocks(page) if (each.language, each.mark) == ("sh", "run"))
    words = shlex.split(block.text.replace("\\\n", " "))
    return words[: words.index("--report")]


def tables() -> str:
    """Of what that command answers, its seconds left out."""
    program, *words = first_example()
    # `default.*.gz`: as a shell does it.
    given = [
        str(path) for word in words for path in (sorted(ROOT.glob(word)) if "*" in word else [word])
    ]
    # Another machine's Python is run by an emulator, and so are its programs.
    default = str(Path(sys.executable).parent / program)
    command = [*shlex.split(os.environ.get(PROGRAM, default)), *given, "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return digest(_timeless(json.loads(done.stdout)))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if "second" not in key}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def main(chosen: list[str]) -> int:
    """Prints those that are asked for, or all."""
    digests = {
        name: tables() if name == TABLES else vectors(name) for name in chosen or (*AREAS, TABLES)
    }
    print(json.dumps(digests, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
