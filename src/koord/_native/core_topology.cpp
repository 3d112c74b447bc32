// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "bindings.hpp"
#include "koord/topology_state.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

using Column = py::array_t<std::int32_t, py::array::c_style>;

// Whatever Python takes as an index, NumPy's integers too.
int to_id(const py::handle& value) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  int overflow = 0;
  const long id = index ? PyLong_AsLongAndOverflow(index.ptr(), &overflow) : -1;
  if (id >= 0 && id <= CpuSet::kMaxId) return static_cast<int>(id);
  PyErr_Clear();
  throw Exception(
      invalid("cpu id", py::repr(value).cast<std::string>(), "an integer from 0 to 8191"));
}

// A cpu list as text, or anything that yields ids.
CpuSet to_set(const py::handle& cpus) {
  if (py::isinstance<py::str>(cpus)) return CpuSet::parse(cpus.cast<std::string>()).value();
  CpuSet set;
  for (const auto id : py::iter(cpus)) set.insert(to_id(id));
  return set;
}

std::optional<CpuSet> to_optional_set(const py::object& cpus) {
  if (cpus.is_none()) return std::nullopt;
  return to_set(cpus);
}

Topology from_columns(const Column& cpu, const Column& core, const Column& socket,
                      const Column& node, const Column& l3, const Column& online) {
  std::vector<CpuInfo> cpus;
  for (py::ssize_t i = 0; i < cpu.size(); ++i) {
    cpus.push_back({.cpu = cpu.at(i),
                    .core = core.at(i),
                    .socket = socket.at(i),
                    .node = node.at(i),
                    .l3 = l3.at(i),
                    .online = online.at(i) != 0});
  }
  return Topology::from_cpus(std::move(cpus)).value();
}

// Reading a large machine opens thousands of files; no Python object is touched meanwhile.
Topology from_sysfs(const std::string& root) {
  const py::gil_scoped_release release;
  return Topology::from_sysfs(root).value();
}

py::list cpus_of(const Topology& topology) {
  const auto told = [](int id) -> py::object { return id == kUnknown ? py::none() : py::cast(id); };
  py::list out;
  for (const CpuInfo& info : topology.cpus()) {
    out.append(py::make_tuple(info.cpu, told(info.core), told(info.socket), told(info.node),
                              told(info.l3), info.online));
  }
  return out;
}

py::tuple summary_of(const Topology& topology) {
  const auto told = [](int n) -> py::object { return n == kUnknown ? py::none() : py::cast(n); };
  const TopologySummary summary = topology.summary();
  return py::make_tuple(summary.cpus, told(summary.cores), told(summary.sockets),
                        told(summary.nodes), told(summary.l3), told(summary.threads_per_core));
}

std::vector<std::string_view> names_of(PassSet passes) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kPassCount; ++i) {
    if (passes.contains(static_cast<Pass>(i))) names.push_back(name(static_cast<Pass>(i)));
  }
  return names;
}

// Owns the sets that a request borrows.
struct Request {
  PickRequest request;
  std::optional<CpuSet> reserved, preferred, within;
  std::vector<CpuSet> preemptible;

  Request(int count, std::string_view bind, bool required, std::string_view exclusive,
          std::string_view strategy, int max_ref_count, const py::object& reserved_cpus,
          const py::object& preferred_cpus, const py::object& preemptible_sets,
          const py::object& within_cpus)
      : reserved(to_optional_set(reserved_cpus)),
        preferred(to_optional_set(preferred_cpus)),
        within(to_optional_set(within_cpus)) {
    if (!preemptible_sets.is_none()) {
      for (const auto cpus : py::iter(preemptible_sets)) preemptible.push_back(to_set(cpus));
    }
    request = {.count = count,
               .bind = parse_bind_policy(bind).value(),
               .required = required,
               .exclusive = parse_exclusive_policy(exclusive).value(),
               .strategy = parse_numa_strategy(strategy).value(),
               .max_ref_count = max_ref_count,
               .reserved = reserved ? &*reserved : nullptr,
               .preferred = preferred ? &*preferred : nullptr,
               .preemptible = preemptible,
               .within = within ? &*within : nullptr};
  }
};

void register_pick(py::module_& m) {
  py::class_<Pick>(m, "Pick")
      .def_property_readonly("ok", &Pick::ok)
      .def_property_readonly(
          "cpus",
          [](const Pick& pick) { return std::vector<int>(pick.cpus.begin(), pick.cpus.end()); })
      .def_property_readonly("cpu_list", [](const Pick& pick) { return pick.cpus.format(); })
      .def_property_readonly("passes", [](const Pick& pick) { return names_of(pick.passes); })
      .def_property_readonly("preferred_passes",
                             [](const Pick& pick) { return names_of(pick.preferred_passes); })
      .def_property_readonly("pass_name", &Pick::pass_name)
      .def("reason", [](const Pick& pick, std::string_view bind) {
        return reason(pick.status, parse_bind_policy(bind).value());
      });
  m.def("passes", [] {
    std::vector<std::pair<std::string_view, std::string_view>> all;
    for (int i = 0; i < kPassCount; ++i) {
      const auto pass = static_cast<Pass>(i);
      all.emplace_back(name(pass), describe(pass));
    }
    return all;
  });
}

void register_state(py::module_& m) {
  py::class_<CpuState>(m, "CPUState")
      .def(py::init([](const Topology& topology) { return CpuState(topology); }))
      .def("add",
           [](CpuState& state, const std::string& uid, const py::object& cpus,
              std::string_view exclusive) {
             return state.add(uid, to_set(cpus), parse_exclusive_policy(exclusive).value());
           })
      .def("release", [](CpuState& state, const std::string& uid) { return state.release(uid); })
      .def("update",
           [](CpuState& state, const std::string& uid, const py::object& cpus,
              std::string_view exclusive) {
             state.update(uid, to_set(cpus), parse_exclusive_policy(exclusive).value());
           })
      .def("cpus_of",
           [](const CpuState& state, const std::string& uid) -> std::optional<std::vector<int>> {
             const CpuSet* cpus = state.cpus_of(uid);
             if (cpus == nullptr) return std::nullopt;
             return std::vector<int>(cpus->begin(), cpus->end());
           })
      .def("ref_count", &CpuState::ref_count)
      .def("allocated",
           [](const CpuState& state) {
             const CpuSet cpus = state.allocated();
             return std::vector<int>(cpus.begin(), cpus.end());
           })
      .def("numa_status",
           [](const CpuState& state, int node) { return name(state.numa_status(node)); })
      .def("available",
           [](const CpuState& state, std::string_view bind, bool required, int max_ref_count,
              const py::object& reserved, const py::object& preferred,
              const py::object& preemptible, const py::object& within) {
             const Request request(0, bind, required, "", "LeastAllocated", max_ref_count, reserved,
                                   preferred, preemptible, within);
             const CpuSet cpus = state.available(request.request);
             return std::vector<int>(cpus.begin(), cpus.end());
           })
      .def(
          "count_available",
          [](const CpuState& state, std::string_view bind, bool required, int max_ref_count,
             const py::object& reserved, const py::object& preferred, const py::object& preemptible,
             const py::object& within) {
            const Request request(0, bind, required, "", "LeastAllocated", max_ref_count, reserved,
                                  preferred, preemptible, within);
            py::list counts;
            for (const NodeCpus& node : state.count_available(request.request)) {
              counts.append(py::make_tuple(
                  node.node == kUnknown ? py::object(py::none()) : py::cast(node.node), node.cpus));
            }
            return counts;
          })
      .def("fingerprint", [](const CpuState& state) { return py::bytes(state.fingerprint()); })
      .def("pick", [](const CpuState& state, int count, std::string_view bind, bool required,
                      std::string_view exclusive, std::string_view strategy, int max_ref_count,
                      const py::object& reserved, const py::object& preferred,
                      const py::object& preemptible, const py::object& within) {
        const Request request(count, bind, required, exclusive, strategy, max_ref_count, reserved,
                              preferred, preemptible, within);
        return state.pick(request.request);
      });
}

}  // namespace

void register_topology(py::module_& m) {
  py::class_<Topology>(m, "Topology")
      .def_static("from_columns", &from_columns)
      .def_static("from_sysfs", &from_sysfs)
      .def("cpus", &cpus_of)
      .def("summary", &summary_of)
      .def("online", [](const Topology& topology) {
        return std::vector<int>(topology.online().begin(), topology.online().end());
      });
  register_pick(m);
  register_state(m);
}

}  // namespace koord::python
