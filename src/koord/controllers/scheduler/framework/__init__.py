# SPDX-License-Identifier: Apache-2.0
"""What plugins implement and are given: `plugin` has the extension points, `cycle` one attempt,
`handle` everything outside, `accounts` who counts on which node; `feasibility` keeps what Filter
and Score answer by shape and row. Begin with `plugin`; docs/scheduler.md.
"""
