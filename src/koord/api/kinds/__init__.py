# SPDX-License-Identifier: Apache-2.0
"""The typed objects, one module a family, and the registry that finds a type by apiVersion and
kind. Begin with `meta`, then `pod`.
"""
