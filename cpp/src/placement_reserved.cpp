// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_reserved.hpp"

#include <string>
#include <vector>

#include "divide.hpp"

namespace koord::placement {
namespace {

std::size_t checked(const char* what, std::int64_t index, std::size_t size) {
  if (index >= 0 && static_cast<std::size_t>(index) < size) return static_cast<std::size_t>(index);
  throw Exception(not_found(what, std::to_string(index), "one below " + std::to_string(size)));
}

void check(const Reserved& reserved, std::span<const ReservedAmount> amounts) {
  for (const ReservedAmount& each : amounts) {
    if (each.place >= 0) (void)checked("resource", each.place, reserved.resources);
  }
}

std::uint8_t fit_of(const Columns& columns, const Reserved& reserved, std::size_t row,
                    std::size_t slot, std::span<const ReservedAmount> amounts) {
  bool alone = true;
  bool beside = true;
  bool within = true;
  bool shares = false;
  for (const ReservedAmount& each : amounts) {
    const std::size_t at = each.resource * columns.stride + row;
    const std::int64_t free = columns.allocatable[at] - columns.requested[at];
    const bool held = each.place >= 0;
    const std::size_t there =
        held ? static_cast<std::size_t>(each.place) * reserved.stride + slot : 0;
    shares |= held && each.shared && reserved.held[there] > 0;
    if (!each.checked) continue;
    alone &= free >= each.amount;
    beside &= free + (held && each.given ? reserved.remaining[there] : 0) >= each.amount;
    within &= !held || reserved.limit[there] >= each.amount;
  }
  return static_cast<std::uint8_t>((alone ? kAlone : 0) | (beside ? kBeside : 0) |
                                   (within ? kWithin : 0) | (shares ? kShares : 0));
}

}  // namespace

void reserved_fit(const Columns& columns, const Reserved& reserved,
                  std::span<const std::int64_t> rows, std::span<const std::int64_t> slots,
                  std::span<const ReservedAmount> amounts, std::span<std::uint8_t> fit) {
  if (rows.size() != slots.size()) {
    throw Exception(invalid("slots", std::to_string(slots.size()), "as many as rows"));
  }
  check(reserved, amounts);
  for (const ReservedAmount& each : amounts) {
    (void)checked("resource", static_cast<std::int64_t>(each.resource), columns.resources);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t row = checked("row", rows[i], columns.stride);
    fit[i] = fit_of(columns, reserved, row, checked("slot", slots[i], reserved.stride), amounts);
  }
}

void reserved_scores(const Reserved& reserved, std::span<const std::int64_t> slots,
                     std::span<const ReservedAmount> amounts, std::span<std::int64_t> scores) {
  check(reserved, amounts);
  std::vector<std::int64_t> asked(reserved.resources, 0);
  for (const ReservedAmount& each : amounts) {
    if (each.place >= 0 && each.shared) asked[static_cast<std::size_t>(each.place)] += each.amount;
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::size_t slot = checked("slot", slots[i], reserved.stride);
    std::int64_t total = 0;
    std::int64_t count = 0;
    for (std::size_t r = 0; r < reserved.resources; ++r) {
      const std::int64_t held = reserved.held[r * reserved.stride + slot];
      if (held <= 0) continue;
      const std::int64_t used = reserved.used[r * reserved.stride + slot] + asked[r];
      if (used <= held) total += divide(100 * used, held);
      ++count;
    }
    scores[i] = count == 0 ? 0 : total / count;
  }
}

}  // namespace koord::placement
