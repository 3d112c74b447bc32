# SPDX-License-Identifier: Apache-2.0
"""What this kernel offers beyond the common: features and the probe behind each, core scheduling,
perf counters, resctrl and its mount. Begin with `features`.
"""
