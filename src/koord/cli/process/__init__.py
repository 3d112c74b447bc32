# SPDX-License-Identifier: Apache-2.0
"""How a program ends: `program` turns errors into one line and an exit status, `signals` SIGINT and
SIGTERM into an end with results.
"""
