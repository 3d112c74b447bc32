// SPDX-License-Identifier: Apache-2.0
#include "cluster_devices.hpp"

#include <pybind11/stl.h>

#include "bindings.hpp"
#include "columns.hpp"
#include "koord/devices.hpp"
#include "koord/fragmentation.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

using namespace koord::devices;
using Amounts = std::vector<std::int64_t>;

std::uint32_t checked(const DeviceTable& table, std::uint32_t row) {
  return checked_row(table, row);
}

const Request& checked(const DeviceTable& table, const Request& request) {
  table.check_request(request);
  return request;
}

void add_values(py::module_& m) {
  py::enum_<Choice>(m, "Choice")
      .value("FIRST", Choice::kFirst)
      .value("BEST", Choice::kBest)
      .value("WORST", Choice::kWorst)
      .value("RANDOM", Choice::kRandom);
  py::enum_<Strategy>(m, "Strategy")
      .value("NONE", Strategy::kNone)
      .value("LEAST_ALLOCATED", Strategy::kLeastAllocated)
      .value("MOST_ALLOCATED", Strategy::kMostAllocated);
  py::class_<Device>(m, "Device")
      .def(py::init([](std::int32_t minor, Amounts total, std::int32_t numa_node, std::int32_t pcie,
                       std::vector<std::string> labels, bool healthy) {
             return Device{minor, std::move(total), numa_node, pcie, std::move(labels), healthy};
           }),
           py::arg("minor"), py::arg("total"), py::arg("numa_node"), py::arg("pcie"),
           py::arg("labels"), py::arg("healthy"));
  py::class_<Request>(m, "Request")
      .def(py::init(
               [](Amounts each, std::int32_t count) { return Request{std::move(each), count}; }),
           py::arg("each"), py::arg("count"))
      .def_readonly("each", &Request::each)
      .def_readonly("count", &Request::count);
  py::class_<Constraints>(m, "Constraints")
      .def(py::init([](std::optional<std::uint64_t> numa_nodes, std::optional<MinorMask> required,
                       MinorMask preferred, std::vector<std::int32_t> preferred_pcies,
                       std::vector<std::string> labels) {
             return Constraints{numa_nodes, required, preferred, std::move(preferred_pcies),
                                std::move(labels)};
           }),
           py::arg("numa_nodes"), py::arg("required"), py::arg("preferred"),
           py::arg("preferred_pcies"), py::arg("labels"));
  py::class_<Scoring>(m, "Scoring")
      .def(py::init([](Strategy strategy, Amounts weights) {
             return Scoring{strategy, std::move(weights)};
           }),
           py::arg("strategy"), py::arg("weights"));
}

void add_partitions(py::module_& m) {
  py::class_<PartitionTable, std::shared_ptr<PartitionTable>>(m, "PartitionTable")
      .def(py::init([](const std::vector<
                        std::tuple<MinorMask, std::int64_t, std::optional<std::int64_t>>>& listed) {
             std::vector<Partition> partitions;
             for (const auto& [minors, score, bandwidth] : listed) {
               partitions.push_back({minors, score, bandwidth});
             }
             return std::make_shared<PartitionTable>(std::move(partitions));
           }),
           py::arg("partitions"));
}

void add_table(py::module_& m) {
  py::class_<DeviceTable>(m, "DeviceTable")
      .def(py::init<std::vector<std::string>>(), py::arg("resources"))
      .def_property_readonly("resources", &DeviceTable::resources)
      .def("__len__", &DeviceTable::rows)
      .def("add_row", [](DeviceTable& t, const std::vector<Device>& d) { return t.add_row(d); })
      .def("update_row", [](DeviceTable& t, std::uint32_t row,
                            const std::vector<Device>& d) { t.update_row(checked(t, row), d); })
      .def("free",
           [](const DeviceTable& t, std::uint32_t row, std::size_t resource) {
             const auto free = t.free(checked(t, row), t.checked_resource(resource));
             return Amounts(free.begin(), free.end());
           })
      .def("total",
           [](const DeviceTable& t, std::uint32_t row, std::size_t resource) {
             const auto total = t.total(checked(t, row), t.checked_resource(resource));
             return Amounts(total.begin(), total.end());
           })
      .def("used",
           [](const DeviceTable& t, std::uint32_t row, std::size_t resource) {
             const auto used = t.used(checked(t, row), t.checked_resource(resource));
             return Amounts(used.begin(), used.end());
           })
      .def("fitting",
           [](const DeviceTable& t, std::uint32_t row, const Amounts& each) {
             return t.fitting(checked(t, row), t.checked_amounts(each));
           })
      .def("idle", [](const DeviceTable& t, std::uint32_t row) { return t.idle(checked(t, row)); })
      .def("listed",
           [](const DeviceTable& t, std::uint32_t row) { return t.listed(checked(t, row)); })
      .def("set_partitions",
           [](DeviceTable& t, std::uint32_t row, std::shared_ptr<PartitionTable> partitions,
              bool honour) { t.set_partitions(checked(t, row), std::move(partitions), honour); })
      .def("charge", [](DeviceTable& t, std::uint32_t row, std::int32_t minor,
                        const Amounts& each) { t.charge(checked(t, row), minor, each); })
      .def("discharge", [](DeviceTable& t, std::uint32_t row, std::int32_t minor,
                           const Amounts& each) { t.discharge(checked(t, row), minor, each); })
      .def("choose",
           [](const DeviceTable& t, std::uint32_t row, const Request& request, Choice choice,
              std::uint64_t seed) {
             SplitMix64 lots(seed);
             return t.choose(checked(t, row), checked(t, request), choice, &lots);
           })
      .def("allocate",
           [](const DeviceTable& t, std::uint32_t row, const Request& request,
              const Constraints& constraints, const Scoring& scoring) {
             return t.allocate(checked(t, row), checked(t, request), constraints, scoring);
           })
      .def("score",
           [](const DeviceTable& t, std::uint32_t row, const Request& request,
              const Scoring& scoring) {
             return t.score(checked(t, row), checked(t, request), scoring);
           })
      .def("take", [](DeviceTable& t, std::uint32_t row, MinorMask minors,
                      const Amounts& each) { t.take(checked(t, row), minors, each); })
      .def("give_back", [](DeviceTable& t, std::uint32_t row, MinorMask minors,
                           const Amounts& each) { t.give_back(checked(t, row), minors, each); });
}

void add_fragmentation(py::module_& m) {
  py::class_<PodShape>(m, "PodShape")
      .def(py::init([](std::int64_t cpu_milli, std::int64_t gpu_milli, std::int32_t gpu_count,
                       std::string gpu_spec) {
             return PodShape{cpu_milli, gpu_milli, gpu_count, std::move(gpu_spec)};
           }),
           py::arg("cpu_milli"), py::arg("gpu_milli"), py::arg("gpu_count"), py::arg("gpu_spec"))
      .def_readonly("cpu_milli", &PodShape::cpu_milli)
      .def_readonly("gpu_milli", &PodShape::gpu_milli)
      .def_readonly("gpu_count", &PodShape::gpu_count)
      .def_readonly("gpu_spec", &PodShape::gpu_spec);
  m.def("typical_pods", [](const std::vector<std::pair<PodShape, std::int64_t>>& counts,
                           std::int64_t coverage_percent) {
    std::vector<ShapeCount> shapes;
    for (const auto& [shape, count] : counts) shapes.push_back({shape, count});
    std::vector<std::pair<PodShape, double>> typical;
    for (const TypicalPod& pod : typical_pods(std::move(shapes), coverage_percent)) {
      typical.emplace_back(pod.shape, pod.frequency);
    }
    return typical;
  });
  py::class_<FragmentationMeasure, std::shared_ptr<FragmentationMeasure>>(m, "FragmentationMeasure")
      .def(py::init([](const std::vector<std::pair<PodShape, double>>& pods) {
        TypicalPods typical;
        for (const auto& [shape, frequency] : pods) typical.push_back({shape, frequency});
        return std::make_shared<FragmentationMeasure>(std::move(typical));
      }))
      .def("sums", [](const FragmentationMeasure& measure, std::int64_t cpu_milli,
                      const Amounts& gpu_milli, const std::string& model) {
        return measure.sums(cpu_milli, measure.profile(gpu_milli), measure.accepted(model));
      });
  m.def("fragment_amount", &fragment_amount);
  m.def("complete_memory", [](std::int64_t bytes, std::int64_t percent, std::int64_t card_bytes) {
    const GpuMemory memory = complete_memory({bytes, percent}, card_bytes);
    return std::pair(memory.bytes, memory.percent);
  });
  m.def("gradient_score", &gradient_score);
}

}  // namespace

void register_devices(py::module_& m) {
  add_values(m);
  add_partitions(m);
  add_table(m);
  add_fragmentation(m);
  register_assignment(m);
}

}  // namespace koord::python
