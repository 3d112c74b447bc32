// SPDX-License-Identifier: Apache-2.0
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "koord/numa.hpp"

namespace py = pybind11;
using namespace koord::numa;

// A hint list stays on this side: the main path from hints to a decision copies none.
PYBIND11_MAKE_OPAQUE(HintList)

namespace koord::python {
namespace {

using Counts = std::vector<std::int64_t>;
using Accepts = std::function<bool(std::optional<Counts>)>;

Machine machine_of(const ZoneSet& zones, Exclusive exclusive, std::vector<Status> statuses) {
  return {zones, exclusive, std::move(statuses)};
}

// The callback is copied and dropped by the caller's thread only, which holds the GIL then;
// pybind11 takes the GIL for each call.
CpuSupply supply_of(std::int64_t needed, Counts bindable, bool required, bool full_cores,
                    std::int64_t threads_per_core, const std::optional<Accepts>& accepts) {
  CpuSupply cpus{needed, std::move(bindable), required, full_cores, threads_per_core, {}};
  if (!accepts) return cpus;
  cpus.accepts = [call = *accepts](std::span<const std::int64_t> counts) {
    if (counts.empty()) return call(std::nullopt);
    return call(Counts(counts.begin(), counts.end()));
  };
  return cpus;
}

std::vector<std::optional<HintList>> hints_of(HintQuery query) {
  // Sixteen zones take milliseconds. Safe without the GIL: the query is this thread's own copy.
  py::gil_scoped_release release;
  return generate_hints(query).value();
}

Hint merged(const ZoneSet& zones, Exclusive exclusive, std::vector<Status> statuses,
            const std::vector<const HintList*>& lists) {
  const Machine machine = machine_of(zones, exclusive, std::move(statuses));
  const std::vector<std::span<const Hint>> spans = [&] {
    std::vector<std::span<const Hint>> views;
    for (const HintList* list : lists) views.emplace_back(*list);
    return views;
  }();
  // Safe without the GIL: the lists are immutable from Python and held by the caller's arguments.
  py::gil_scoped_release release;
  return merge(machine, spans).value();
}

Decision decide(Policy policy, const ZoneSet& zones, Exclusive exclusive,
                std::vector<Status> statuses, const std::vector<Provider>& providers) {
  const Machine machine = machine_of(zones, exclusive, std::move(statuses));
  // Safe without the GIL for the same reason as in merged().
  py::gil_scoped_release release;
  return admit(policy, machine, providers).value();
}

Provider provider_of(std::string failure,
                     const std::vector<std::pair<std::string, const HintList*>>& resources) {
  Provider provider{std::move(failure), {}};
  for (const auto& [name, hints] : resources) provider.resources.push_back({name, hints});
  return provider;
}

void register_enums(py::module_& m) {
  py::enum_<Kind>(m, "Kind")
      .value("CPU", Kind::kCpu)
      .value("NATIVE", Kind::kNative)
      .value("SCALAR", Kind::kScalar);
  py::enum_<Strategy>(m, "Strategy")
      .value("LEAST_ALLOCATED", Strategy::kLeastAllocated)
      .value("MOST_ALLOCATED", Strategy::kMostAllocated);
  py::enum_<Policy>(m, "Policy")
      .value("NONE", Policy::kNone)
      .value("BEST_EFFORT", Policy::kBestEffort)
      .value("RESTRICTED", Policy::kRestricted)
      .value("SINGLE_NUMA_NODE", Policy::kSingleNumaNode);
  py::enum_<Exclusive>(m, "Exclusive")
      .value("NONE", Exclusive::kNone)
      .value("PREFERRED", Exclusive::kPreferred)
      .value("REQUIRED", Exclusive::kRequired);
  py::enum_<Status>(m, "Status")
      .value("IDLE", Status::kIdle)
      .value("SHARED", Status::kShared)
      .value("SINGLE", Status::kSingle);
}

void register_amounts(py::module_& m) {
  py::class_<ZoneSet>(m, "ZoneSet")
      .def(py::init([](std::vector<int> ids) { return ZoneSet::from_ids(std::move(ids)).value(); }))
      .def_property_readonly("ids", &ZoneSet::ids)
      .def_property_readonly("all", &ZoneSet::all)
      .def("mask_of", [](const ZoneSet& zones,
                         const std::vector<int>& ids) { return zones.mask_of(ids).value(); })
      .def("ids_of", &ZoneSet::ids_of)
      .def("text", &ZoneSet::text);
  py::class_<Column>(m, "Column")
      .def(py::init<Kind, Mask, Counts>())
      .def_readonly("listed", &Column::listed)
      .def_readonly("amount", &Column::amount);
  py::class_<CpuSupply>(m, "CpuSupply").def(py::init(&supply_of));
  m.def("enumerate_masks", [](std::size_t zones) { return enumerate_masks(zones).value(); });
  m.def("available", [](const std::vector<Column>& total, Mask tracked, std::vector<Column> used,
                        std::vector<Column> reusable, Counts bound_cpus, double cpu_ratio) {
    return available(total, {tracked, std::move(used), std::move(reusable), std::move(bound_cpus),
                             cpu_ratio})
        .value();
  });
  m.def("distribute", [](const std::vector<Column>& free, const std::vector<Demand>& demands,
                         Mask mask, std::size_t zones, const CpuSupply* cpus) {
    auto result = distribute(free, demands, mask, zones, cpus).value();
    return std::pair(std::move(result.taken), std::move(result.insufficient));
  });
  py::class_<Demand>(m, "Demand").def(py::init<std::size_t, std::int64_t, std::int64_t>());
}

void register_hints(py::module_& m) {
  py::class_<Scorer>(m, "Scorer").def(py::init<Strategy, Counts>());
  py::class_<ScoreTerm>(m, "ScoreTerm")
      .def(py::init<Kind, std::int64_t, std::int64_t, std::int64_t>());
  m.def("score", [](const Scorer& scorer, const std::vector<ScoreTerm>& terms) {
    return score(scorer, terms).value();
  });
  py::class_<Pool>(m, "Pool").def(py::init<std::vector<Column>, std::optional<CpuSupply>>());
  m.def("generate_hints", [](std::size_t zones, std::vector<Column> total, std::vector<Column> free,
                             std::vector<Demand> demands, std::vector<Pool> pools,
                             std::optional<Scorer> scorer, bool prefer_every_size) {
    return hints_of({zones, std::move(total), std::move(free), std::move(demands), std::move(pools),
                     std::move(scorer), prefer_every_size});
  });
  py::class_<Hint>(m, "Hint")
      .def(py::init<std::optional<Mask>, bool, bool, std::int64_t>())
      .def_readonly("affinity", &Hint::affinity)
      .def_readonly("preferred", &Hint::preferred)
      .def_readonly("unsatisfied", &Hint::unsatisfied)
      .def_readonly("score", &Hint::score);
  py::class_<HintList>(m, "HintList")
      .def(py::init([](const py::iterable& hints) {
        HintList list;
        for (const py::handle hint : hints) list.push_back(hint.cast<const Hint&>());
        return list;
      }))
      .def("__len__", &HintList::size)
      .def("__getitem__", [](const HintList& list, std::size_t i) {
        if (i >= list.size()) throw py::index_error("hint index out of range");
        return list[i];
      });
}

void register_policies(py::module_& m) {
  m.def("merge", &merged);
  py::class_<Provider>(m, "Provider").def(py::init(&provider_of), py::keep_alive<1, 3>());
  py::class_<Decision>(m, "Decision")
      .def_readonly("hint", &Decision::hint)
      .def_readonly("admitted", &Decision::admitted)
      .def_readonly("reasons", &Decision::reasons);
  m.def("admit", &decide);
  m.def("parse_policy", [](const std::string& name) { return parse_policy(name).value(); });
  m.def("reported_policy", [](const std::vector<std::string>& names, bool compatible) {
    return reported_policy(names, compatible ? Naming::kCompatible : Naming::kEvery).value();
  });
  m.def("zone_status", &zone_status);
  m.def("effective_policy", [](Policy node, Policy pod, Exclusive exclusive) {
    auto effective = effective_policy(node, pod, exclusive);
    return std::tuple(effective.policy, effective.exclusive, std::move(effective.conflict));
  });
}

}  // namespace

void register_numa(py::module_& m) {
  register_enums(m);
  register_amounts(m);
  register_hints(m);
  register_policies(m);
}

}  // namespace koord::python
