# SPDX-License-Identifier: Apache-2.0
"""What PreBind writes besides the allocation: words of vendors' device plugins, and the lock on a
node. Only with the gate DevicePluginAdaption. Begin with `device_plugin_adapter.adapt`.
"""
