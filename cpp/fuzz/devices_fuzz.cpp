// SPDX-License-Identifier: Apache-2.0
// A table of devices that pods take, give back and overdraw as a program says.
#include <bit>

#include "fuzz.hpp"
#include "koord/devices_assign.hpp"

using namespace koord::devices;  // NOLINT(google-build-using-namespace): an entry of one table
using koord::fuzz::accepted;
using koord::fuzz::Program;

namespace {

constexpr std::size_t kResources = 2;
constexpr std::uint32_t kRows = 3;

std::vector<std::int64_t> amounts(Program& program) {
  // Now and then more than a table takes.
  const std::int64_t most = program.below(16) == 0 ? koord::fuzz::kInt64Max : 100;
  std::vector<std::int64_t> made(kResources);
  for (std::int64_t& amount : made) amount = program.amount(most);
  return made;
}

std::int32_t minor_of(Program& program) {
  return program.below(8) == 0 ? program.number(-1, 64) : program.number(0, 9);
}

MinorMask mask_of(Program& program) {
  return program.below(8) == 0 ? program.word() : MinorMask{program.byte()};
}

std::vector<Device> devices_of(Program& program) {
  std::vector<Device> devices;
  for (std::size_t left = program.below(9); left > 0; --left) {
    Device& device = devices.emplace_back();
    device.minor =
        program.flag() ? minor_of(program) : static_cast<std::int32_t>(devices.size()) - 1;
    device.total = amounts(program);
    device.numa_node = program.number(-2, 3);
    device.pcie = program.number(-1, 5);
    if (program.below(4) == 0) device.labels = {"a=b"};
    device.healthy = program.below(8) != 0;
  }
  return devices;
}

Scoring scoring_of(Program& program) {
  return {static_cast<Strategy>(program.below(3)), {program.amount(100), program.amount(100)}};
}

Demand demand_of(Program& program) {
  Demand demand;
  demand.request = {amounts(program), program.number(1, 9)};
  const std::uint8_t flags = program.byte();
  demand.grouped = (flags & 1U) != 0;
  demand.shared = (flags & 2U) != 0;
  demand.honour_partition = (flags & 4U) != 0;
  demand.best_partition_only = (flags & 8U) != 0;
  demand.whole_pcie = (flags & 16U) != 0;
  demand.scope = static_cast<Scope>(program.below(5));
  demand.bandwidth_bps = program.amount(100);
  return demand;
}

std::vector<Holding> holdings_of(Program& program) {
  std::vector<Holding> held;
  for (std::size_t left = program.below(4); left > 0; --left) {
    std::vector<std::int64_t> some = amounts(program);
    for (std::int64_t& amount : some) amount = std::min(amount, kMaxAmount);
    const std::int32_t minor = std::clamp(minor_of(program), 0, kMaxMinors - 1);
    if (std::ranges::find(held, minor, &Holding::minor) == held.end()) {
      held.push_back({minor, std::move(some)});
    }
  }
  return held;
}

Offer offer_of(Program& program) {
  Offer offer;
  const std::uint8_t which = program.byte();
  if ((which & 1U) != 0) offer.numa_nodes = program.byte();
  if ((which & 2U) != 0) offer.allowed = mask_of(program);
  if ((which & 4U) != 0) offer.preferred = mask_of(program);
  if ((which & 8U) != 0) offer.preferred_pcies = {program.number(-1, 5), program.number(0, 5)};
  if ((which & 16U) != 0) offer.returned = holdings_of(program);
  if ((which & 32U) != 0) offer.caps = holdings_of(program);
  return offer;
}

void check_row(const DeviceTable& table, std::uint32_t row) {
  std::int64_t free_sum = 0;
  for (std::size_t resource = 0; resource < kResources; ++resource) {
    std::int64_t largest = 0;
    for (std::size_t minor = 0; minor < table.free(row, resource).size(); ++minor) {
      const std::int64_t free = table.free(row, resource)[minor];
      const std::int64_t used = table.used(row, resource)[minor];
      FUZZ_CHECK(used >= 0);
      FUZZ_CHECK(free == std::max<std::int64_t>(0, table.total(row, resource)[minor] - used));
      largest = std::max(largest, free);
      if (resource == 0) free_sum += free;
    }
    FUZZ_CHECK(table.largest_free(resource)[row] == largest);
  }
  FUZZ_CHECK(table.free_sums()[row] == free_sum);
  FUZZ_CHECK((table.idle(row) & ~table.present(row)) == 0);
  for (const NumaGroup& group : table.groups(row)) {
    for (const MinorMask pcie : group.pcies) FUZZ_CHECK((pcie & ~group.minors) == 0);
  }
}

void choose(Program& program, const DeviceTable& table, std::uint32_t row) {
  const Demand demand = demand_of(program);
  if (!accepted([&] { table.check_request(demand.request); })) return;
  const Request& request = demand.request;
  const MinorMask fitting = table.fitting(row, request.each);
  FUZZ_CHECK(table.fits(row, request) == (std::popcount(fitting) >= request.count));
  if (table.has_largest_minor(row) && request.count == 1) {
    bool enough = table.present(row) != 0;
    for (std::size_t resource = 0; resource < kResources; ++resource) {
      enough &= table.largest_free(resource)[row] >= request.each[resource];
    }
    FUZZ_CHECK(enough == (fitting != 0));
  }
  koord::SplitMix64 lots(program.byte());
  for (const Choice choice : {Choice::kFirst, Choice::kBest, Choice::kWorst, Choice::kRandom}) {
    const MinorMask chosen = table.choose(row, request, choice, &lots);
    FUZZ_CHECK((chosen & ~fitting) == 0);
    FUZZ_CHECK(std::popcount(chosen) == (table.fits(row, request) ? request.count : 0));
  }
  const Scoring scoring = scoring_of(program);
  const std::int64_t score = table.score(row, request, scoring);
  FUZZ_CHECK(score >= 0 && score <= 100);
  Constraints constraints;
  if (program.flag()) constraints.required = mask_of(program);
  if (program.flag()) constraints.numa_nodes = program.byte();
  if (program.flag()) constraints.labels = {"a=b"};
  constraints.preferred = mask_of(program);
  const MinorMask allocated = table.allocate(row, request, constraints, scoring);
  FUZZ_CHECK((allocated & ~fitting) == 0);
  FUZZ_CHECK(allocated == 0 || std::popcount(allocated) == request.count);
}

void assign_some(Program& program, DeviceTable& table, std::uint32_t row) {
  const Demand demand = demand_of(program);
  if (!accepted([&] { table.check_request(demand.request); })) return;
  const Offer offer = offer_of(program);
  const Scoring scoring = scoring_of(program);
  (void)offered_score(table, row, demand, offer, scoring);
  const Assignment offered = assign(table, row, demand, offer, scoring);
  FUZZ_CHECK((offered.refusal == Refusal::kNone) == (offered.minors != 0));
  if (offer.allowed) FUZZ_CHECK((offered.minors & ~*offer.allowed) == 0);
  const Assignment plain = assign(table, row, demand, {}, scoring);
  FUZZ_CHECK((plain.refusal == Refusal::kNone) == (plain.minors != 0));
  const std::vector<std::int64_t> rows{row};
  std::vector<std::uint8_t> refusals(1);
  assign_rows(table, rows, demand, refusals);
  FUZZ_CHECK(refusals[0] == static_cast<std::uint8_t>(plain.refusal));
  if (plain.minors == 0) return;
  FUZZ_CHECK(std::popcount(plain.minors) == demand.request.count);
  table.take(row, plain.minors, demand.request.each);
  check_row(table, row);
  if (program.flag()) table.give_back(row, plain.minors, demand.request.each);
}

std::shared_ptr<const PartitionTable> partitions_of(Program& program) {
  std::vector<Partition> partitions;
  for (std::size_t left = program.below(6); left > 0; --left) {
    Partition& partition = partitions.emplace_back();
    partition.minors = mask_of(program);
    partition.score = program.signed_amount(100);
    if (program.flag()) partition.bandwidth_bps = program.amount(koord::fuzz::kInt64Max);
  }
  return std::make_shared<const PartitionTable>(partitions);
}

void step(Program& program, DeviceTable& table) {
  const auto row = static_cast<std::uint32_t>(program.below(kRows));
  switch (program.below(8)) {
    case 0:
      accepted([&] { table.update_row(row, devices_of(program)); });
      break;
    case 1:
      accepted([&] { table.take(row, mask_of(program), amounts(program)); });
      break;
    case 2:
      accepted([&] { table.give_back(row, mask_of(program), amounts(program)); });
      break;
    case 3:
      accepted([&] { table.charge(row, minor_of(program), amounts(program)); });
      break;
    case 4:
      accepted([&] { table.discharge(row, minor_of(program), amounts(program)); });
      break;
    case 5:
      accepted([&] { table.set_partitions(row, partitions_of(program), program.flag()); });
      break;
    case 6:
      choose(program, table, row);
      break;
    default:
      assign_some(program, table, row);
  }
  check_row(table, row);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(data, size);
  DeviceTable table({"core", "memory"});
  for (std::uint32_t row = 0; row < kRows; ++row) {
    if (!accepted([&] { table.add_row(devices_of(program)); })) table.add_row({});
  }
  FUZZ_CHECK(table.rows() == kRows);
  for (int steps = 0; steps < 48 && !program.ended(); ++steps) step(program, table);
  for (std::uint32_t row = 0; row < kRows; ++row) check_row(table, row);
  return 0;
}
