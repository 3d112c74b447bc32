# SPDX-License-Identifier: Apache-2.0
"""What is wrong with manifests and configuration before they are applied.

Files become trees that know their lines (`source_tree`), then subjects; checkers by kind say
what is wrong; `runner` puts it together. Begin with `runner.check`.
"""
