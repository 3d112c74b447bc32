# SPDX-License-Identifier: Apache-2.0
"""Built-in controllers of the embedded control plane; they run against any API server."""

from koord.controlplane.controllers.manager import NAMES, BuiltinControllers

__all__ = ["NAMES", "BuiltinControllers"]
