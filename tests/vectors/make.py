# SPDX-License-Identifier: Apache-2.0
"""Makes the vectors of an area: ``python -m tests.vectors.make AREA --driver PATH``.

PATH is the driver (docs/vectors.md). Without it the vectors that are there are compared with what
koord answers. Differences that nothing names are told.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from typing import Any

from tests.vectors.area import load, read_vectors, write_vectors
from tests.vectors.compare import compared


def made(name: str, driver: str) -> dict[str, Any]:
    """The vectors of an area, as the driver answers now.

    Raises:
        subprocess.CalledProcessError: the driver failed.
    """
    area = load(name)
    cases = area.inputs(random.Random(area.SEED))
    ran = subprocess.run(
        [driver, "--coverage", name], input=json.dumps(cases).encode(), capture_output=True,
        check=False,
    )  # fmt: skip
    sys.stderr.write(ran.stderr.decode())
    ran.check_returncode()
    told = json.loads(ran.stdout)
    both = [{"in": case, "out": out} for case, out in zip(cases, told["cases"], strict=True)]
    return {
        "area": name, "seed": area.SEED, "commit": told["commit"], "coverage": told["coverage"],
        "cases": both,
    }  # fmt: skip


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors.make")
    parser.add_argument("area")
    parser.add_argument("--driver", help="makes the vectors anew")
    parser.add_argument("--show", type=int, default=5, help="differences that are told in full")
    options = parser.parse_args()
    if options.driver:
        write_vectors(options.area, made(options.area, options.driver))
    document = read_vectors(options.area)
    found = compared(document["cases"], load(options.area))
    for function, percent in document["coverage"].items():
        print(f"{percent:5.1f}% {function}")
    for each in found.unnamed[: options.show]:
        print(json.dumps(each._asdict(), indent=1))
    print(f"{len(document['cases'])} cases, unnamed differences: {len(found.unnamed)}")
    for name, count in found.named.items():
        print(f"  {name}: {count}")


if __name__ == "__main__":
    main()
