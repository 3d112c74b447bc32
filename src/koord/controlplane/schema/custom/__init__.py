# SPDX-License-Identifier: Apache-2.0
"""What a CustomResourceDefinition says of its objects, and whether it may be stored.

``definition_rules`` and ``structural_rules`` check the definition; ``crd_schema`` prunes,
defaults and validates objects, by ``structural``, ``json_schema`` (compiled, fast) and
``validation`` (exact). Begin with ``crd_schema``.
"""
