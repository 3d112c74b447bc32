// SPDX-License-Identifier: Apache-2.0
// One registration function a kernel, each in its own core_<kernel>.cpp.
#pragma once

#include <pybind11/pybind11.h>

namespace koord::python {

void register_topology(pybind11::module_& m);
void register_numa(pybind11::module_& m);
void register_quota(pybind11::module_& m);
void register_devices(pybind11::module_& m);
void register_placement(pybind11::module_& m);
void register_board(pybind11::module_& m);
void register_histogram(pybind11::module_& m);
void register_series(pybind11::module_& m);
void register_cgroup(pybind11::module_& m);
void register_resctrl(pybind11::module_& m);

}  // namespace koord::python
