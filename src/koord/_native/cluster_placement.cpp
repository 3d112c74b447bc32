// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "bindings.hpp"
#include "columns.hpp"
#include "koord/placement.hpp"
#include "koord/placement_placer.hpp"
#include "koord/placement_policy.hpp"
#include "koord/placement_replay.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

using namespace koord::placement;
using devices::FragmentationMeasure;
using Amounts = std::vector<std::int64_t>;
using Mask = py::array_t<std::uint8_t>;

// The library trusts its rows and shapes; Python's are checked here.
Row checked_row(const NodeTable& table, Row row) {
  if (row < table.rows()) return row;
  throw Exception(not_found("row", std::to_string(row), "a row of the table"));
}

ShapeId checked_shape(const NodeTable& table, ShapeId shape) {
  if (shape < table.shapes()) return shape;
  throw Exception(not_found("shape", std::to_string(shape), "a shape of the table"));
}

const Placement& checked(const NodeTable& table, const Placement& placement) {
  checked_row(table, placement.row);
  checked_shape(table, placement.shape);
  return placement;
}

py::array_t<std::int64_t> view(const NodeTable& table, std::size_t resource,
                               const Column& (NodeTable::*column)(std::size_t) const) {
  if (resource >= table.resources().size()) {
    throw Exception(not_found("resource", std::to_string(resource), "a resource of the table"));
  }
  const Column& found = (table.*column)(resource);
  return shared_view<std::int64_t>(found.block(), found.size());
}

// These columns move when a node is added, so Python gets its own.
py::array_t<std::int64_t> copied(std::span<const std::int64_t> column) {
  return moved_array(std::vector<std::int64_t>(column.begin(), column.end()));
}

Mask filtered(const NodeTable& table, ShapeId shape) {
  Mask mask(static_cast<py::ssize_t>(table.rows()));
  table.filter(checked_shape(table, shape), {mask.mutable_data(), table.rows()});
  return mask;
}

// Scores as the policy normalises them; 0 where the shape does not fit.
py::array_t<std::int32_t> scored(const NodeTable& table, Policy& policy, ShapeId shape,
                                 const Mask& mask) {
  std::vector<Rating> ratings(table.rows());
  const std::span<const std::uint8_t> feasible(mask.data(), table.rows());
  policy.rate_all(table, shape, feasible, ratings);
  policy.normalise(feasible, ratings);
  py::array_t<std::int32_t> scores(static_cast<py::ssize_t>(table.rows()));
  for (Row row = 0; row < table.rows(); ++row) scores.mutable_data()[row] = ratings[row].score;
  return scores;
}

py::array_t<std::int32_t> rated(Placer& placer, ShapeId shape,
                                const py::array_t<std::int64_t, py::array::c_style>& asked) {
  std::vector<Row> rows;
  for (const std::int64_t row : span_of(asked)) {
    rows.push_back(checked_row(placer.table(), row < 0 ? ~Row{0} : static_cast<Row>(row)));
  }
  std::vector<Rating> ratings(rows.size());
  placer.rate(shape, rows, ratings);
  py::array_t<std::int32_t> scores(static_cast<py::ssize_t>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) scores.mutable_data()[i] = ratings[i].score;
  return scores;
}

void add_values(py::module_& m) {
  py::class_<Node>(m, "Node").def(
      py::init([](std::string name, Amounts capacity, std::string model,
                  std::vector<std::string> labels, std::vector<devices::Device> gpus) {
        return Node{std::move(name), std::move(capacity), std::move(model), std::move(labels),
                    std::move(gpus)};
      }),
      py::arg("name"), py::arg("capacity"), py::arg("model"), py::arg("labels"), py::arg("gpus"));
  py::class_<Shape>(m, "Shape")
      .def(py::init([](Amounts request, Amounts scored, Amounts gpu_each, std::int32_t gpu_count,
                       std::vector<std::string> models, std::vector<std::string> labels) {
             return Shape{std::move(request),
                          std::move(scored),
                          {std::move(gpu_each), gpu_count},
                          std::move(models),
                          std::move(labels)};
           }),
           py::arg("request"), py::arg("scored"), py::arg("gpu_each"), py::arg("gpu_count"),
           py::arg("models"), py::arg("labels"));
  py::class_<Placement>(m, "Placement")
      .def(py::init(
               [](Row row, ShapeId shape, MinorMask gpus) { return Placement{row, shape, gpus}; }),
           py::arg("row"), py::arg("shape"), py::arg("gpus"))
      .def_readonly("row", &Placement::row)
      .def_readonly("shape", &Placement::shape)
      .def_readonly("gpus", &Placement::gpus)
      .def("__eq__", [](const Placement& a, const Placement& b) { return a == b; });
}

void add_table(py::module_& m) {
  py::class_<NodeTable>(m, "NodeTable")
      .def(py::init<std::vector<std::string>, std::vector<std::string>>(), py::arg("resources"),
           py::arg("gpu_resources"))
      .def_property_readonly("resources", &NodeTable::resources)
      .def("__len__", &NodeTable::rows)
      .def_property_readonly("shapes", &NodeTable::shapes)
      .def_property_readonly("version", [](const NodeTable& t) { return t.version(); })
      .def("add_node", &NodeTable::add_node)
      .def("close_node", [](NodeTable& t, Row row) { t.close_node(checked_row(t, row)); })
      .def("set_capacity",
           [](NodeTable& t, Row row, const Amounts& capacity) {
             t.set_capacity(checked_row(t, row), capacity);
           })
      .def("set_gpus",
           [](NodeTable& t, Row row, const std::vector<devices::Device>& gpus) {
             t.set_gpus(checked_row(t, row), gpus);
           })
      .def("mirror",
           [](NodeTable& t, Row row, const Amounts& free, const Amounts& gpu_milli) {
             t.mirror(checked_row(t, row), free, gpu_milli);
           })
      .def("row", &NodeTable::row)
      .def("name", [](const NodeTable& t, Row row) { return t.name(checked_row(t, row)); })
      .def("model", [](const NodeTable& t,
                       Row row) { return t.model_names()[t.model(checked_row(t, row))]; })
      .def("set_ranks",
           [](NodeTable& t, const std::vector<std::uint32_t>& ranks) { t.set_ranks(ranks); })
      .def("capacity",
           [](const NodeTable& t, std::size_t r) { return view(t, r, &NodeTable::capacity); })
      .def("free", [](const NodeTable& t, std::size_t r) { return view(t, r, &NodeTable::free); })
      .def("scored",
           [](const NodeTable& t, std::size_t r) { return view(t, r, &NodeTable::scored); })
      .def("gpus_free",
           [](const NodeTable& t, Row row, std::size_t resource) {
             const auto free =
                 t.gpus().free(checked_row(t, row), t.gpus().checked_resource(resource));
             return Amounts(free.begin(), free.end());
           })
      .def("gpus_free_sums", [](const NodeTable& t) { return copied(t.gpus().free_sums()); })
      .def("gpus_total_sums", [](const NodeTable& t) { return copied(t.gpus().total_sums()); })
      .def("intern", &NodeTable::intern)
      .def("filter", &filtered)
      .def("commit", [](NodeTable& t, const Placement& p) { t.commit(checked(t, p)); })
      .def("remove", [](NodeTable& t, const Placement& p) { t.remove(checked(t, p)); })
      .def("mark", &NodeTable::mark)
      .def("undo", &NodeTable::undo)
      .def("forget", &NodeTable::forget);
}

void add_placer(py::module_& m) {
  m.def("policy_names", &policy_names);
  py::class_<Placer>(m, "Placer")
      .def(py::init([](NodeTable& table, const std::string& policy, std::uint64_t seed,
                       std::shared_ptr<FragmentationMeasure> measure, Amounts weights) {
             return std::make_unique<Placer>(
                 table, make_policy(policy, table, {seed, std::move(measure), std::move(weights)}));
           }),
           py::arg("table"), py::arg("policy"), py::arg("seed"), py::arg("fragmentation"),
           py::arg("weights"), py::keep_alive<1, 2>())
      .def_property_readonly("policy", [](const Placer& p) { return p.policy().name(); })
      .def("pick", &Placer::pick)
      .def("place", &Placer::place)
      .def("place_batch", [](Placer& p, const std::vector<ShapeId>& shapes,
                             bool all_or_none) { return p.place_batch(shapes, all_or_none); })
      .def("rate", &rated)
      .def("choose_gpus", [](Placer& p, ShapeId shape,
                             Row row) { return p.choose_gpus(shape, checked_row(p.table(), row)); })
      .def("arrived", &Placer::arrived)
      .def("epoch", &Placer::epoch)
      .def("score", [](Placer& p, ShapeId shape) {
        const Mask mask = filtered(p.table(), shape);
        return py::make_tuple(mask, scored(p.table(), p.policy(), shape, mask));
      });
}

void add_replay(py::module_& m) {
  py::class_<Replay>(m, "Replay")
      .def(py::init<NodeTable&, Placer&, std::shared_ptr<FragmentationMeasure>>(), py::arg("table"),
           py::arg("placer"), py::arg("fragmentation"), py::keep_alive<1, 2>(),
           py::keep_alive<1, 3>())
      .def("run",
           [](Replay& replay, const py::array_t<ShapeId, py::array::c_style>& arrivals) {
             const auto shapes = span_of(arrivals);
             // Nothing of Python's is touched below; table and placer belong to this replay alone.
             const py::gil_scoped_release unlocked;
             replay.run(shapes);
           })
      .def("finish", [](Replay& replay) {
        ReplayRows rows = replay.finish();
        return py::make_tuple(
            moved_array(std::move(rows.used_milli)), moved_array(std::move(rows.arrived_milli)),
            moved_array(std::move(rows.fragment_milli)),
            moved_array(std::move(rows.fragment_percent)), moved_array(std::move(rows.node)));
      });
}

}  // namespace

void register_placement(py::module_& m) {
  add_values(m);
  add_table(m);
  add_placer(m);
  add_replay(m);
  register_board(m);
}

}  // namespace koord::python
