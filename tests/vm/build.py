# SPDX-License-Identifier: Apache-2.0
"""Fetches and makes what the guest needs and is missing: ``python -m tests.vm.build``."""

from __future__ import annotations

import sys
import time

from tests.vm import image, packages


def main() -> int:
    """Says what each part took and where it lies; 1 when one could not be had."""
    print(f"guest: {packages.cache_folder()}", flush=True)
    try:
        before = time.monotonic()
        programs = packages.fetch()
        print(f"  packages: {time.monotonic() - before:.1f} s ({programs.kernel.name})", flush=True)
        for name, make in (("initramfs", image.small), ("Python", image.base)):
            before = time.monotonic()
            path = make(programs)
            size = path.stat().st_blocks / 2048
            took = time.monotonic() - before
            print(f"  {name}: {took:.1f} s ({path.name}, {size:.0f} MiB)", flush=True)
    except (packages.MissingVmError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
