# SPDX-License-Identifier: Apache-2.0
"""What nodes offer as batch and mid resources, with no API server and no clock: `objects` become
rows of columns, `state` keeps them under deltas, `formulas` are pure functions over columns,
`explain` takes a row apart. Begin with `amounts`, then `formulas.batch`.
"""
