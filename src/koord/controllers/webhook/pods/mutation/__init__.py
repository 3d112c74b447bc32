# SPDX-License-Identifier: Apache-2.0
"""What admission makes of a new pod: functions that change its document in place and tell what they
did. `pod_mutation` has their order; begin there.
"""
