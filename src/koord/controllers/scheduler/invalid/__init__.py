# SPDX-License-Identifier: Apache-2.0
"""Objects that cannot be used as written: found by `pod_labels`, `node_labels` and
informers, kept by `invalid_objects`, told by `status_writer` as a condition or an annotation.
Begin with `invalid_objects`.
"""
