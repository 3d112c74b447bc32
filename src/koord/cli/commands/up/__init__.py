# SPDX-License-Identifier: Apache-2.0
"""`koord up`, `status`, `down`: a cluster in this process.

`command` starts it, `components` says what runs in it, `process_record` and `background` keep it
without a terminal, `colocation` and `colocation_screen` are the day with a screen. Begin with
`components`.
"""
