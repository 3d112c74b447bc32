# SPDX-License-Identifier: Apache-2.0
"""The ``koord`` command: thin. A verb parses words, calls one function, prints its answer."""
