# SPDX-License-Identifier: Apache-2.0
"""`koord resctrl`: plans cache and memory-bandwidth groups without a machine.

Begin with `command`; `slo_config` reads the ConfigMap.
"""
