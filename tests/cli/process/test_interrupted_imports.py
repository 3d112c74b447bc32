# SPDX-License-Identifier: Apache-2.0
"""A signal that comes while a program is still imported ends it as any other does, with no word.

The moment is met on purpose: the programs run with a hook that signals its own process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
BOTH = [signal.SIGINT, signal.SIGTERM]

# Counts modules that are looked for once `koord.cli.entry` has been.
_AT_AN_IMPORT = """
import os, sys

class Hook:
    seen = -1
    def find_spec(self, name, *_):
        if self.seen >= 0 or name == "koord.cli.entry":
            self.seen += 1
        if self.seen == int(os.environ["MOMENT"]):
            self.seen += 1
            os.kill(os.getpid(), int(os.environ["NUMBER"]))

sys.meta_path.insert(0, Hook())
"""
# When an import has ended the machinery forgets its lock in a callback of a weak reference, where
# nothing can be raised. That of the first import after the verb has begun.
_IN_A_CALLBACK = """
import os, signal, sys

def tell(frame, event, _):
    if event == "call" and frame.f_code.co_name == "cb" and "importlib" in frame.f_code.co_filename:
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__module__", "") == "koord.cli.process.signals":
            sys.setprofile(None)
            os.kill(os.getpid(), int(os.environ["NUMBER"]))

sys.setprofile(tell)
"""


def run(folder: Path, hook: str, words: str, **variables: int) -> tuple[int, str]:
    """Exit status and standard error of a program that meets the hook."""
    (folder / "sitecustomize.py").write_text(hook)
    program, *rest = words.split()
    module, _, function = SCRIPTS[program].partition(":")
    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import {function}; {function}()", *rest],
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            **{name: str(value) for name, value in variables.items()},
        },
        capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", BOTH)
@pytest.mark.parametrize("moment", [1, 2, 10, 100])
def test_an_import_is_interrupted(moment: int, number: signal.Signals, tmp_path: Path) -> None:
    found = run(tmp_path, _AT_AN_IMPORT, "koord completion bash", MOMENT=moment, NUMBER=number)
    # SIGTERM without a handler ends a process by itself; a shell says 143 then, too.
    unhandled = moment <= 2 and number == signal.SIGTERM
    assert found == (-number if unhandled else 128 + number, "")


@pytest.mark.parametrize("program", sorted(SCRIPTS))
def test_every_program_begins_so(program: str, tmp_path: Path) -> None:
    for moment in (1, 50):
        found = run(tmp_path, _AT_AN_IMPORT, program, MOMENT=moment, NUMBER=signal.SIGINT)
        assert found == (130, "")


@pytest.mark.parametrize("number", BOTH)
def test_where_nothing_can_be_raised_it_is_raised_again(
    number: signal.Signals, tmp_path: Path
) -> None:
    words = "koord simulate openb --nodes n --pods p"
    assert run(tmp_path, _IN_A_CALLBACK, words, NUMBER=number) == (128 + number, "")
