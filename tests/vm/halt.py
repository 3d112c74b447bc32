# SPDX-License-Identifier: Apache-2.0
"""Run in the guest: its end, as a hang or a crash of the emulation would be."""

from __future__ import annotations

import ctypes

_RESTART = 0x01234567  # LINUX_REBOOT_CMD_RESTART; the emulation ends instead of starting anew.

if __name__ == "__main__":
    ctypes.CDLL(None).reboot(_RESTART)
