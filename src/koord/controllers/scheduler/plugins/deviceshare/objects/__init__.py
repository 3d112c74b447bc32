# SPDX-License-Identifier: Apache-2.0
"""What the plugin reads: a pod's device request and hints, Device objects, partition tables,
templates, annotations. What cannot be read is named and left out. Begin with
`pod_request.DeviceRequest` and `device.DeviceInventory`.
"""
