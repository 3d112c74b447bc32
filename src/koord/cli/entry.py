# SPDX-License-Identifier: Apache-2.0
"""Where the console script ``koord`` begins: imports take a moment, and that can be interrupted."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs :func:`koord.cli.main.main`; an interrupt ends it with 130 from the first moment on."""
    try:
        from koord.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
