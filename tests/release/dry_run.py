# SPDX-License-Identifier: Apache-2.0
"""All that a release publishes, in ``dist/``: ``python -m tests.release.dry_run VERSION [PYTHON]``.

Nothing is published, tagged or written elsewhere: the tag is one that `setuptools_scm` is told of.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

from tests.release import sbom, wheels
from tests.release.contents import Part
from tests.release.engine import ROOT, EngineError, call
from tests.release.images import epoch_of_commit

FRAGMENTS = ROOT / "changelog.d"
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def changelog(version: str, day: str, former: str, fragments: list[str]) -> str:
    """The changelog with a section for a version, above those before.

    Args:
        day: of the release, as 2026-01-31.
        former: the changelog as it is.
        fragments: texts of ``changelog.d``, in order.
    """
    head, mark, older = former.partition("\n## ")
    items = ("- " + each.strip().replace("\n", "\n  ") for each in fragments)
    lines = [f"## {version} ({day})", "", *items]
    return head.rstrip() + "\n\n" + "\n".join(lines) + "\n" + (mark + older if mark else "")


def requirements() -> list[Part]:
    """What a wheel asks for without extras, in the versions of constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    names = [re.split(r"[<>=!~]", each)[0].lower() for each in project["dependencies"]]
    return [Part(name, pinned[name], "PyPI", "", 0) for name in names]


def faults(version: str) -> list[str]:
    """What a release of that version lacks, a line each."""
    tags = call("git", "tag", "--list", f"v{version}", cwd=ROOT).split()
    tests = {
        f"{version}: expected a version as 1.2.3 or 1.2.3rc1": _VERSION.fullmatch(version),
        f"tag v{version}: there is one already": not tags,
        "changelog.d: has no fragment": any(FRAGMENTS.glob("*.md")),
        "the checkout: has changes that are not committed": not call(
            "git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT
        ),
    }
    return [text for text, right in tests.items() if not right]


def write(version: str) -> None:
    """Changelog, bill of materials and checksums beside the artifacts."""
    epoch = epoch_of_commit()
    day = call("date", "-u", "-d", f"@{epoch}", "+%Y-%m-%d").strip()
    texts = [path.read_text(encoding="utf-8") for path in sorted(FRAGMENTS.glob("*.md"))]
    former = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (wheels.DIST / "CHANGELOG.md").write_text(
        changelog(version, day, former, texts), encoding="utf-8"
    )
    bill = sbom.document("koord", version, requirements(), epoch)
    (wheels.DIST / "koord.spdx.json").write_text(json.dumps(bill, indent=1), encoding="utf-8")
    print(wheels.checksums(wheels.DIST))


def main(version: str, *pythons: str) -> int:
    """1 where something is missing; wheels are those of all Pythons, or of the ones given."""
    try:
        if missing := faults(version):
            raise EngineError("\n".join(missing))
        shutil.rmtree(wheels.DIST, ignore_errors=True)
        os.environ["SETUPTOOLS_SCM_PRETEND_VERSION"] = version
        if wheels.main([word for each in pythons for word in ("--python", each)]):
            return 1
        write(version)
    except EngineError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1
    artifacts = ", ".join(sorted(path.name for path in Path(wheels.DIST).iterdir()))
    print(f"v{version} would publish: {artifacts}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ("",))))
