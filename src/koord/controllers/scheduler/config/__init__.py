# SPDX-License-Identifier: Apache-2.0
"""The scheduler's configuration: KubeSchedulerConfiguration ``kubescheduler.config.k8s.io/v1``.

``load`` is in :mod:`koord.controllers.scheduler.config.load`, the arguments of plugins are in
``args_stock``, ``args_koord`` and ``args_jobs``; ``docs/compatibility.md`` says what has no effect.
"""

from koord.controllers.scheduler.config.profiles import Profile

__all__ = ["Profile"]
