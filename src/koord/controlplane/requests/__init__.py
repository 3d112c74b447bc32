# SPDX-License-Identifier: Apache-2.0
"""What a request says and how its answer looks: text on one side, plain values on the other.

``routes`` (paths), ``options``, ``selectors`` and ``bodies`` read it; ``representations`` and
``tables`` give objects whole, as a table or as metadata alone. Begin with ``routes``.
"""
