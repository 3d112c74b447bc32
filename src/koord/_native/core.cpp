// SPDX-License-Identifier: Apache-2.0
// koord._native.core: the kernels of one machine, a submodule each.
#include "bindings.hpp"

namespace {

using koord::python::Kernel;

constexpr Kernel kKernels[] = {
    {"topology", "CPU topology and the CPU picker", koord::python::register_topology},
    {"histogram", "decaying exponential histogram", koord::python::register_histogram},
    {"series", "ring-buffer series and window aggregates", koord::python::register_series},
    {"cgroup", "batched cgroup reads and writes", koord::python::register_cgroup},
    {"resctrl", "resctrl masks, schemata and group plans", koord::python::register_resctrl},
};

}  // namespace

PYBIND11_MODULE(core, m) {
  m.doc() = "libkoord's kernels of one machine; use the faces in koord.kernels.";
  koord::python::define_kernels(m, kKernels);
}
