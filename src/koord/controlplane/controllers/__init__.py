# SPDX-License-Identifier: Apache-2.0
"""Built-in controllers of the embedded control plane; they run against any API server.

A decision is a function from what is there to a plan (``base.plans``); a shell fetches what it
looks at and carries the plan out (``base.runtime``). ``manager`` runs them all. Begin with
``base.plans``, then ``workload.replicasets``.
"""

from koord.controlplane.controllers.manager import NAMES, BuiltinControllers

__all__ = ["NAMES", "BuiltinControllers"]
