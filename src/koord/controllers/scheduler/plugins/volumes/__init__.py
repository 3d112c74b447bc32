# SPDX-License-Identifier: Apache-2.0
"""VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.

Pods without claims and disks cost them nothing.
"""
