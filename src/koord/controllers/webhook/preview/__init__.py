# SPDX-License-Identifier: Apache-2.0
"""What admission would do with an object that nobody has sent yet: the same handlers over objects
that are put in by hand. Begin with `admission_preview`.
"""
