// SPDX-License-Identifier: Apache-2.0
// Amounts cross as dict[str, int], bulk columns as NumPy arrays without a copy. The GIL is kept: a
// tree is changed in place, calls take microseconds, and the GIL is what keeps threads apart.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "koord/quota.hpp"

namespace koord::python {
namespace {

namespace py = pybind11;
using namespace koord::quota;  // NOLINT(google-build-using-namespace): one kernel a file

using Ids = py::array_t<GroupId, py::array::c_style>;
using Column = py::array_t<std::int64_t, py::array::c_style>;

std::int64_t amount_of(std::string_view resource, py::handle value) {
  int overflow = 0;
  const bool whole = PyLong_Check(value.ptr()) != 0;
  const long long amount = whole ? PyLong_AsLongLongAndOverflow(value.ptr(), &overflow) : 0;
  if (whole && overflow == 0) return amount;
  throw Exception(invalid("amount", std::string(resource) + "=" + std::string(py::repr(value)),
                          "an integer of 64 bits"));
}

Amounts amounts_of(ResourceNames& names, const py::dict& amounts) {
  Amounts result;
  for (const auto& [key, value] : amounts) {
    if (!py::isinstance<py::str>(key)) {
      throw Exception(invalid("resource", std::string(py::repr(key)), "a name"));
    }
    const auto name = key.cast<std::string>();
    result.set(names.intern(name), amount_of(name, value));
  }
  return result;
}

/// What a call gives; where names have run out, of a second call, without those nothing needs.
template <class Call>
auto with_names(ResourceNames& names, const Call& call) {
  try {
    return call();
  } catch (const Exception&) {
    if (!names.full() || names.reclaim() == 0) throw;
  }
  return call();
}

py::dict dict_of(const ResourceNames& names, const Amounts& amounts) {
  py::dict result;
  for (ResourceId k = 0; k < names.size(); ++k) {
    if (amounts.has(k)) result[py::str(names.name(k))] = amounts.get(k);
  }
  return result;
}

/// Parent, min, max, weight, is_parent, allow_lent, scale_min, priority: what tuple_of() gives.
using SpecTuple =
    std::tuple<std::string, py::dict, py::dict, py::dict, bool, bool, bool, std::int32_t>;

GroupSpec spec_of(QuotaTree& tree, const SpecTuple& spec) {
  ResourceNames& names = tree.resources();
  const auto& [parent, min, max, weight, is_parent, allow_lent, scale_min, priority] = spec;
  return {parent,
          amounts_of(names, min),
          amounts_of(names, max),
          amounts_of(names, weight),
          is_parent,
          allow_lent,
          scale_min,
          priority};
}

SpecTuple tuple_of(QuotaTree& tree, const GroupSpec& spec) {
  const ResourceNames& names = tree.resources();
  return {spec.parent,
          dict_of(names, spec.min),
          dict_of(names, spec.max),
          dict_of(names, spec.weight),
          spec.is_parent,
          spec.allow_lent,
          spec.scale_min,
          spec.priority};
}

py::tuple admit(QuotaTree& tree, const std::string& name, const py::dict& request,
                bool non_preemptible) {
  const ResourceNames& names = tree.resources();
  const GroupId id = tree.at(name);
  const Admission result = with_names(tree.resources(), [&] {
    return tree.admit(id, amounts_of(tree.resources(), request), non_preemptible);
  });
  py::list exceeded;
  for (ResourceId k = 0; k < names.size(); ++k) {
    if ((result.exceeded >> k & 1U) != 0) exceeded.append(names.name(k));
  }
  py::object group = py::none();
  if (result.group != kNoGroup) group = py::str(tree.name(result.group));
  return py::make_tuple(static_cast<int>(result.verdict), group, exceeded,
                        dict_of(names, result.limit), dict_of(names, result.used),
                        dict_of(names, result.request));
}

py::list rounds_of(QuotaTree& tree, const Explanation& explanation) {
  py::list rounds;
  for (const Round& round : explanation.rounds) {
    py::dict grants;
    for (std::size_t i = 0; i < round.child.size(); ++i) {
      grants[py::str(tree.name(explanation.children[round.child[i]]))] = round.grant[i];
    }
    rounds.append(py::make_tuple(round.priority, round.pool, grants));
  }
  return rounds;
}

py::tuple explain(QuotaTree& tree, const std::string& name, const std::string& resource) {
  const Explanation explanation = tree.explain(tree.at(name), tree.resources().find(resource));
  py::dict children;
  for (std::size_t i = 0; i < explanation.children.size(); ++i) {
    children[py::str(tree.name(explanation.children[i]))] =
        py::make_tuple(explanation.weight[i], explanation.request[i], explanation.floor[i],
                       explanation.runtime[i]);
  }
  return py::make_tuple(tree.name(explanation.parent), explanation.total, explanation.idle,
                        children, rounds_of(tree, explanation));
}

void charge_column(QuotaTree& tree, const Ids& ids, Charge kind, const std::string& resource,
                   const Column& deltas) {
  if (ids.ndim() != 1 || deltas.ndim() != 1 || ids.size() != deltas.size()) {
    throw Exception(invalid("deltas", std::to_string(deltas.size()) + " amounts",
                            "one for each of " + std::to_string(ids.size()) + " ids"));
  }
  ResourceNames& names = tree.resources();
  const ResourceId column = with_names(names, [&] { return names.intern(resource); });
  const auto id = ids.unchecked<1>();
  const auto delta = deltas.unchecked<1>();
  for (py::ssize_t i = 0; i < id.shape(0); ++i) {
    Amounts amounts;
    amounts.set(column, delta(i));
    tree.charge(id(i), kind, amounts);
  }
}

Column runtime_column(QuotaTree& tree, const Ids& ids, const std::string& resource) {
  Column result(ids.size());
  const ResourceId column = tree.resources().find(resource);
  auto out = result.mutable_unchecked<1>();
  const auto id = ids.unchecked<1>();
  for (py::ssize_t i = 0; i < id.shape(0); ++i) {
    out(i) = column < tree.resources().size() ? tree.runtime(id(i)).get(column) : 0;
  }
  return result;
}

void register_enums(py::module_& m) {
  py::enum_<Charge>(m, "Charge")
      .value("REQUEST", Charge::kRequest)
      .value("USED", Charge::kUsed)
      .value("NON_PREEMPTIBLE_REQUEST", Charge::kNonPreemptibleRequest)
      .value("NON_PREEMPTIBLE_USED", Charge::kNonPreemptibleUsed);
  py::enum_<Figure>(m, "Figure")
      .value("REQUEST", Figure::kRequest)
      .value("CHILD_REQUEST", Figure::kChildRequest)
      .value("LIMITED_REQUEST", Figure::kLimitedRequest)
      .value("USED", Figure::kUsed)
      .value("NON_PREEMPTIBLE_REQUEST", Figure::kNonPreemptibleRequest)
      .value("NON_PREEMPTIBLE_USED", Figure::kNonPreemptibleUsed)
      .value("SELF_REQUEST", Figure::kSelfRequest)
      .value("SELF_USED", Figure::kSelfUsed)
      .value("SELF_NON_PREEMPTIBLE_REQUEST", Figure::kSelfNonPreemptibleRequest)
      .value("SELF_NON_PREEMPTIBLE_USED", Figure::kSelfNonPreemptibleUsed)
      .value("ALLOCATED", Figure::kAllocated)
      .value("GUARANTEED", Figure::kGuaranteed);
}

void register_tree(py::module_& m) {
  using Name = const std::string&;
  py::class_<QuotaTree, std::shared_ptr<QuotaTree>>(m, "QuotaTree")
      .def(py::init([](bool builtin, bool runtime, bool parents, bool guarantee) {
             return QuotaTree(Options{builtin, runtime, parents, guarantee});
           }),
           py::arg("builtin_groups"), py::arg("runtime_quota"), py::arg("check_parents"),
           py::arg("guarantee_usage"))
      .def("set_total",
           [](QuotaTree& tree, const py::dict& total) {
             ResourceNames& names = tree.resources();
             with_names(names, [&] { tree.set_total(amounts_of(names, total)); });
           })
      .def("total", [](QuotaTree& tree) { return dict_of(tree.resources(), tree.total()); })
      .def("add",
           [](QuotaTree& tree, Name name, const SpecTuple& spec) {
             with_names(tree.resources(), [&] { tree.add(name, spec_of(tree, spec)); });
           })
      .def("update",
           [](QuotaTree& tree, Name name, const SpecTuple& spec) {
             with_names(tree.resources(), [&] { tree.update(name, spec_of(tree, spec)); });
           })
      .def("remove", [](QuotaTree& tree, Name name) { tree.remove(name); })
      .def("spec",
           [](QuotaTree& tree, Name name) { return tuple_of(tree, tree.spec(tree.at(name))); })
      .def("contains", [](const QuotaTree& tree, Name name) { return tree.find(name) != kNoGroup; })
      .def("names",
           [](const QuotaTree& tree) {
             std::vector<std::string> names;
             for (const GroupId id : tree.groups()) names.push_back(tree.name(id));
             return names;
           })
      .def("ids",
           [](const QuotaTree& tree, const std::vector<std::string>& names) {
             Ids ids(static_cast<py::ssize_t>(names.size()));
             auto out = ids.mutable_unchecked<1>();
             for (std::size_t i = 0; i < names.size(); ++i) {
               out(static_cast<py::ssize_t>(i)) = tree.at(names[i]);
             }
             return ids;
           })
      .def("charge",
           [](QuotaTree& tree, Name name, Charge kind, const py::dict& delta) {
             ResourceNames& names = tree.resources();
             with_names(names, [&] { tree.charge(tree.at(name), kind, amounts_of(names, delta)); });
           })
      .def("charge_column", &charge_column)
      .def("figure",
           [](QuotaTree& tree, Name name, Figure figure) {
             return dict_of(tree.resources(), tree.figure(tree.at(name), figure));
           })
      .def("runtime",
           [](QuotaTree& tree, Name name) {
             return dict_of(tree.resources(), tree.runtime(tree.at(name)));
           })
      .def("runtime_column", &runtime_column)
      .def("scaled_min",
           [](QuotaTree& tree, Name name) {
             return dict_of(tree.resources(), tree.scaled_min(tree.at(name)));
           })
      .def("admit", &admit)
      .def("explain", &explain);
}

void register_forest(py::module_& m) {
  py::class_<Forest>(m, "Forest")
      .def(py::init([](bool runtime, bool parents, bool guarantee) {
             return Forest(Options{true, runtime, parents, guarantee});
           }),
           py::arg("runtime_quota"), py::arg("check_parents"), py::arg("guarantee_usage"))
      .def("tree", &Forest::tree)
      .def("ids", &Forest::ids)
      .def("set_cluster_total",
           [](Forest& forest, const py::dict& total) {
             ResourceNames& names = forest.resources();
             with_names(names, [&] { forest.set_cluster_total(amounts_of(names, total)); });
           })
      .def("set_tree_total",
           [](Forest& forest, const std::string& id, const py::dict& total, bool deducted) {
             ResourceNames& names = forest.resources();
             with_names(names,
                        [&] { forest.set_tree_total(id, amounts_of(names, total), deducted); });
           })
      .def("remove_tree", &Forest::remove_tree);
}

}  // namespace

void register_quota(py::module_& m) {
  register_enums(m);
  register_tree(m);
  register_forest(m);
}

}  // namespace koord::python
