# SPDX-License-Identifier: Apache-2.0
"""KubeSchedulerConfiguration: `configuration_file` is the file as written, `load` reads it,
`profiles` resolves which plugins run, `plugin_args` and `args_*` are the plugins' arguments,
`field_path` names the field that is wrong. Begin with `load`.
"""

from koord.controllers.scheduler.config.profiles import Profile

__all__ = ["Profile"]
