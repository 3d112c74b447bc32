# SPDX-License-Identifier: Apache-2.0
"""Expressions of the Common Expression Language, in objects that users write.

`expression` compiles and evaluates one with CEL's own runtime, `functions` adds those that
Kubernetes adds, `conditions` asks several. Begin with `expression`.
"""
