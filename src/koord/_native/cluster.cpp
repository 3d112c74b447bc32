// SPDX-License-Identifier: Apache-2.0
// koord._native.cluster: the kernels that only who decides over many machines needs, a submodule
// each. On every machine there is an agent, which would hold two megabytes of them for nothing.
#include "bindings.hpp"

namespace {

using koord::python::Kernel;

constexpr Kernel kKernels[] = {
    {"numa", "NUMA hints, merge and per-zone fit", koord::python::register_numa},
    {"quota", "elastic quota tree", koord::python::register_quota},
    {"devices", "GPU and other device packing", koord::python::register_devices},
    {"placement", "node table and placement policies", koord::python::register_placement},
};

}  // namespace

PYBIND11_MODULE(cluster, m) {
  m.doc() = "libkoord's kernels of a cluster; use the faces in koord.kernels.";
  koord::python::define_kernels(m, kKernels);
}
