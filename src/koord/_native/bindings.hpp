// SPDX-License-Identifier: Apache-2.0
// What both modules are made with, and one registration function a kernel, each in its own
// core_<kernel>.cpp or cluster_<kernel>.cpp.
#pragma once

#include <pybind11/pybind11.h>

#include <span>

namespace koord::python {

struct Kernel {
  const char* name;
  const char* doc;
  void (*add)(pybind11::module_&);
};

// A submodule a kernel, and the translation of libkoord's errors in their functions.
void define_kernels(pybind11::module_& m, std::span<const Kernel> kernels);

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
