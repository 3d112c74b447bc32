# SPDX-License-Identifier: Apache-2.0
"""VolumeBinding, VolumeZone, NodeVolumeLimits and VolumeRestrictions over one `cache` of claims,
volumes and classes. `volume_matcher` finds volumes for a pod's claims by row,
`pod_volume_binder` writes and waits. Begin with `pod_request`, then `binding`.
"""
