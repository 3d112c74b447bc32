// SPDX-License-Identifier: Apache-2.0
#include "koord/devices_assign.hpp"

#include "check.hpp"

using namespace koord::devices;
using koord::Exception;

namespace {

// Two NUMA nodes of two PCIe roots of two GPUs.
DeviceTable machine() {
  DeviceTable table({"core", "memory"});
  std::vector<Device> gpus;
  for (std::int32_t minor = 0; minor < 8; ++minor) {
    gpus.push_back({.minor = minor, .total = {100, 16}, .numa_node = minor / 4, .pcie = minor / 2});
  }
  table.add_row(gpus);
  return table;
}

Demand whole(std::int32_t count) { return {.request = {{100, 0}, count}, .grouped = true}; }

Demand part(std::int64_t core) {
  return {.request = {{core, 0}, 1}, .grouped = true, .shared = true};
}

const std::vector<std::int64_t> kAll{100, 0};

std::shared_ptr<const PartitionTable> halves() {
  std::vector<Partition> parts;
  for (int size = 1; size <= 8; size *= 2) {
    for (int first = 0; first < 8; first += size) {
      parts.push_back({((MinorMask{1} << size) - 1) << first, 1});
    }
  }
  return std::make_shared<PartitionTable>(std::move(parts));
}

}  // namespace

TEST("devices_assign/topology packs into the part that is in use") {
  DeviceTable table = machine();
  table.take(0, MinorMask{1} << 5, kAll);
  CHECK_EQ(assign(table, 0, whole(1), {}, {}).minors, MinorMask{1} << 4);
  CHECK_EQ(assign(table, 0, whole(2), {}, {}).minors, MinorMask{0b11} << 6);
}

TEST("devices_assign/partitions keep the large ones whole") {
  DeviceTable table = machine();
  table.set_partitions(0, halves(), true);
  table.take(0, 0b1, kAll);
  CHECK_EQ(assign(table, 0, whole(1), {}, {}).minors, MinorMask{0b10});
  CHECK_EQ(assign(table, 0, whole(2), {}, {}).minors, MinorMask{0b1100});
  CHECK(assign(table, 0, whole(3), {}, {}).refusal == Refusal::kNoPartitionSize);
  CHECK(assign(table, 0, whole(8), {}, {}).refusal == Refusal::kPartitionsTaken);
}

TEST("devices_assign/a scope that is a must refuses what is spread") {
  const DeviceTable table = machine();
  Demand three = whole(3);
  three.scope = Scope::kPcie;
  CHECK(assign(table, 0, three, {}, {}).refusal == Refusal::kScopesTaken);
  three.scope = Scope::kNumaNode;
  CHECK_EQ(assign(table, 0, three, {}, {}).minors, MinorMask{0b111});
}

TEST("devices_assign/offers return, cap and prefer") {
  DeviceTable table = machine();
  table.take(0, 0xff, kAll);
  CHECK(assign(table, 0, whole(1), {}, {}).refusal == Refusal::kGroupsTaken);
  Offer back{.returned = {{6, {100, 0}}}};
  CHECK_EQ(assign(table, 0, whole(1), back, {}).minors, MinorMask{1} << 6);
  back.caps = std::vector<Holding>{{6, {40, 16}}};
  CHECK(assign(table, 0, part(50), back, {}).refusal == Refusal::kGroupsTaken);
  CHECK_EQ(assign(table, 0, part(40), back, {}).minors, MinorMask{1} << 6);
  CHECK_EQ(assign(machine(), 0, whole(2), {.preferred = 0b100100}, {}).minors, MinorMask{0b100100});
}

TEST("devices_assign/many rows agree with one by one") {
  DeviceTable table = machine();
  table.add_row({});
  const std::vector<std::int64_t> rows{0, 1, 0};
  std::vector<std::uint8_t> refusals(rows.size(), 9);
  assign_rows(table, rows, whole(8), refusals);
  CHECK_EQ(refusals[0], 0);
  CHECK(refusals[1] == static_cast<std::uint8_t>(Refusal::kTooFew));
  CHECK_EQ(refusals[2], 0);
  const std::vector<std::int64_t> bad{2};
  CHECK_THROWS(assign_rows(table, bad, whole(1), refusals), Exception);
}

TEST("devices_assign/charges may exceed a card and are taken back exactly") {
  DeviceTable table = machine();
  const std::vector<std::int64_t> much{250, 3};
  table.charge(0, 1, much);
  table.charge(0, 12, much);
  CHECK_EQ(table.free(0, 0)[1], 0);
  CHECK_EQ(table.used(0, 0)[12], 250);
  CHECK_THROWS(table.charge(0, 64, much), Exception);
  table.discharge(0, 12, much);
  table.discharge(0, 1, much);
  CHECK_EQ(table.idle(0), MinorMask{0xff});
  CHECK_THROWS(table.discharge(0, 1, much), Exception);
}
