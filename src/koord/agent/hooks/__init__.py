# SPDX-License-Identifier: Apache-2.0
"""What a pod's and a container's files must say, however it is delivered: `hook` says what a hook
is, `builtin` has koord's own, `registry` loads them, `reconciliation` delivers by claims,
without a runtime. Begin with `hook`, then `builtin.batch_resource`.
"""
