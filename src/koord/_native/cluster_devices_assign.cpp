// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "cluster_devices.hpp"
#include "columns.hpp"
#include "koord/devices_assign.hpp"

namespace py = pybind11;

namespace koord::python {
namespace {

using namespace koord::devices;
using Amounts = std::vector<std::int64_t>;
using Holdings = std::vector<std::pair<std::int32_t, Amounts>>;
using Rows = py::array_t<std::int64_t, py::array::c_style>;

std::vector<Holding> holdings(const Holdings& pairs) {
  std::vector<Holding> made;
  for (const auto& [minor, amounts] : pairs) made.push_back({minor, amounts});
  return made;
}

// Amounts of an offer come as they are computed elsewhere; their arity is all that could do harm.
void check_offer(const DeviceTable& table, const Offer& offer) {
  const auto check = [&](const std::vector<Holding>& held) {
    for (const Holding& holding : held) {
      if (holding.minor < 0 || holding.minor >= kMaxMinors) {
        throw Exception(invalid("device minor", std::to_string(holding.minor), "0 to 63"));
      }
      (void)table.checked_amounts(holding.amounts);
    }
  };
  check(offer.returned);
  if (offer.caps) check(*offer.caps);
}

void add_demand(py::module_& m) {
  py::enum_<Scope>(m, "Scope")
      .value("ANY", Scope::kAny)
      .value("NODE", Scope::kNode)
      .value("NUMA_NODE", Scope::kNumaNode)
      .value("PCIE", Scope::kPcie)
      .value("DEVICE", Scope::kDevice);
  py::enum_<Refusal>(m, "Refusal")
      .value("NONE", Refusal::kNone)
      .value("TOO_FEW", Refusal::kTooFew)
      .value("NO_PARTITIONS", Refusal::kNoPartitions)
      .value("NO_PARTITION_SIZE", Refusal::kNoPartitionSize)
      .value("PARTITIONS_TAKEN", Refusal::kPartitionsTaken)
      .value("NO_TOPOLOGY", Refusal::kNoTopology)
      .value("MANY_SHARES", Refusal::kManyShares)
      .value("SCOPES_TAKEN", Refusal::kScopesTaken)
      .value("GROUPS_TAKEN", Refusal::kGroupsTaken);
  py::class_<Demand>(m, "Demand")
      .def(py::init([](Amounts each, std::int32_t count, bool grouped, bool shared, Scope scope,
                       bool honour_partition, bool best_partition_only, std::int64_t bandwidth_bps,
                       bool whole_pcie) {
             return Demand{
                 {std::move(each), count}, grouped,       shared,    scope, honour_partition,
                 best_partition_only,      bandwidth_bps, whole_pcie};
           }),
           py::arg("each"), py::arg("count"), py::arg("grouped"), py::arg("shared"),
           py::arg("scope"), py::arg("honour_partition"), py::arg("best_partition_only"),
           py::arg("bandwidth_bps"), py::arg("whole_pcie"));
  py::class_<Offer>(m, "Offer")
      .def(py::init([](std::optional<std::uint64_t> numa_nodes, std::optional<MinorMask> allowed,
                       MinorMask preferred, std::vector<std::int32_t> preferred_pcies,
                       const Holdings& returned, const std::optional<Holdings>& caps) {
             Offer offer{numa_nodes,         allowed, preferred, std::move(preferred_pcies),
                         holdings(returned), {}};
             if (caps) offer.caps = holdings(*caps);
             return offer;
           }),
           py::arg("numa_nodes"), py::arg("allowed"), py::arg("preferred"),
           py::arg("preferred_pcies"), py::arg("returned"), py::arg("caps"));
}

}  // namespace

void register_assignment(py::module_& m) {
  add_demand(m);
  m.def("assign", [](const DeviceTable& table, std::uint32_t row, const Demand& demand,
                     const Offer& offer, const Scoring& scoring) {
    table.check_request(demand.request);
    check_offer(table, offer);
    const Assignment found = assign(table, checked_row(table, row), demand, offer, scoring);
    return std::pair(found.refusal, found.minors);
  });
  m.def("assign_rows", [](const DeviceTable& table, const Rows& rows, const Demand& demand) {
    table.check_request(demand.request);
    std::vector<std::uint8_t> refusals(static_cast<std::size_t>(rows.size()));
    assign_rows(table, span_of(rows), demand, refusals);
    return moved_array(std::move(refusals));
  });
  m.def("offered_score", [](const DeviceTable& table, std::uint32_t row, const Demand& demand,
                            const Offer& offer, const Scoring& scoring) {
    table.check_request(demand.request);
    check_offer(table, offer);
    return offered_score(table, checked_row(table, row), demand, offer, scoring);
  });
  m.def("score_rows", [](const DeviceTable& table, const Rows& rows, const Request& request,
                         const Scoring& scoring) {
    table.check_request(request);
    std::vector<std::int64_t> scores(static_cast<std::size_t>(rows.size()));
    score_rows(table, span_of(rows), request, scoring, scores);
    return moved_array(std::move(scores));
  });
}

}  // namespace koord::python
