# SPDX-License-Identifier: Apache-2.0
"""`koord up --colocation`: a day of services and batch on a cluster that runs, sampled each minute.

Begin with `workload`, then `run_record`.
"""
