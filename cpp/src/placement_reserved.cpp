// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_reserved.hpp"

#include <algorithm>
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

// By resource of the reservations, what a pod adds to what is used of it.
std::vector<std::int64_t> shared_amounts(const Reserved& reserved,
                                         std::span<const ReservedAmount> amounts) {
  std::vector<std::int64_t> asked(reserved.resources, 0);
  for (const ReservedAmount& each : amounts) {
    if (each.place >= 0 && each.shared) asked[static_cast<std::size_t>(each.place)] += each.amount;
  }
  return asked;
}

std::int64_t score_of(const Reserved& reserved, std::size_t slot,
                      std::span<const std::int64_t> asked) {
  std::int64_t total = 0;
  std::int64_t count = 0;
  for (std::size_t r = 0; r < reserved.resources; ++r) {
    const std::int64_t held = reserved.held[r * reserved.stride + slot];
    if (held <= 0) continue;
    const std::int64_t used = reserved.used[r * reserved.stride + slot] + asked[r];
    if (used <= held) total += divide(100 * used, held);
    ++count;
  }
  return count == 0 ? 0 : total / count;
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
  const std::vector<std::int64_t> asked = shared_amounts(reserved, amounts);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    scores[i] = score_of(reserved, checked("slot", slots[i], reserved.stride), asked);
  }
}

void check_question(const ReservedQuestion& question, std::size_t rows) {
  if (question.slots.size() < rows || question.columns.stride < rows) {
    throw Exception(invalid("slots", std::to_string(question.slots.size()), "one a row"));
  }
  check(question.reserved, question.amounts);
  for (const ReservedAmount& each : question.amounts) {
    (void)checked("resource", static_cast<std::int64_t>(each.resource), question.columns.resources);
  }
}

void reserved_answers(const ReservedQuestion& question, std::size_t first,
                      std::span<std::uint8_t> passes, std::span<std::int64_t> raw) {
  const std::vector<std::int64_t> asked = shared_amounts(question.reserved, question.amounts);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const std::int64_t its = question.slots[first + i];
    passes[i] = 1;
    raw[i] = 0;
    if (its < 0) continue;
    const std::size_t slot = checked("slot", its, question.reserved.stride);
    const std::uint8_t fit =
        fit_of(question.columns, question.reserved, first + i, slot, question.amounts);
    const bool within = (fit & kWithin) != 0;
    const bool beside = (fit & kBeside) != 0;
    const bool serves = within && (question.required || (fit & kShares) != 0);
    const bool alone = !question.required && (fit & kAlone) != 0;
    passes[i] = static_cast<std::uint8_t>(alone || (serves && (beside || question.skips_node)));
    if (question.required || (serves && beside)) {
      raw[i] = score_of(question.reserved, slot, asked);
    }
  }
}

void ReservedBounds::update(const Reserved& reserved, std::span<const std::int64_t> slots,
                            RowSet rows) {
  if (slots.size() != rows_ || reserved.resources != resources_) {
    if (rows.index != nullptr || rows.first > 0 || rows.count < slots.size()) {
      throw Exception(invalid("rows", std::to_string(rows.count), "all, of other columns"));
    }
    rows_ = slots.size();
    resources_ = reserved.resources;
    blocks_ = (rows_ + kBlock - 1) / kBlock;
    fills_.assign(blocks_ * resources_, {});
    least_count_.assign(blocks_, 0);
    most_count_.assign(blocks_, 0);
  }
  // What is read in part would say less of a block than there is.
  try {
    read(reserved, slots, rows);
  } catch (...) {
    *this = {};
    throw;
  }
}

void ReservedBounds::read(const Reserved& reserved, std::span<const std::int64_t> slots,
                          RowSet rows) {
  std::size_t last = blocks_;
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::size_t row = checked("row", rows[i], rows_);
    if (row / kBlock == last) continue;
    last = row / kBlock;
    read_block(last, reserved, slots);
  }
}

void ReservedBounds::read_block(std::size_t block, const Reserved& reserved,
                                std::span<const std::int64_t> slots) {
  const std::span<Fill> fills = std::span(fills_).subspan(block * resources_, resources_);
  std::ranges::fill(fills, Fill{});
  bool any = false;
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (std::size_t row = block * kBlock; row < std::min(rows_, (block + 1) * kBlock); ++row) {
    if (slots[row] < 0) continue;
    const std::size_t slot = checked("slot", slots[row], reserved.stride);
    std::int64_t count = 0;
    for (std::size_t r = 0; r < resources_; ++r) {
      const std::int64_t held = reserved.held[r * reserved.stride + slot];
      if (held <= 0) continue;
      const std::int64_t used = reserved.used[r * reserved.stride + slot];
      Fill& fill = fills[r];
      const bool is_first = fill.least_held == 0;
      fill = {.least_held = is_first ? held : std::min(fill.least_held, held),
              .most_held = std::max(fill.most_held, held),
              .least_used = is_first ? used : std::min(fill.least_used, used),
              .most_used = is_first ? used : std::max(fill.most_used, used)};
      ++count;
    }
    least = any ? std::min(least, count) : count;
    most = std::max(most, count);
    any = true;
  }
  least_count_[block] = least;
  most_count_[block] = most;
}

void ReservedBounds::limits(const ReservedQuestion& question, std::span<std::int64_t> most) const {
  if (question.reserved.resources != resources_ || most.size() < blocks_) {
    throw Exception(invalid("resources", std::to_string(question.reserved.resources),
                            "as many as update() has read"));
  }
  const std::vector<std::int64_t> asked = shared_amounts(question.reserved, question.amounts);
  for (std::size_t block = 0; block < blocks_; ++block) {
    const std::int64_t count = most_count_[block];
    // The mean of different numbers of resources may be that of any of them.
    const bool mixed = least_count_[block] != count;
    std::int64_t total = 0;
    for (std::size_t r = 0; r < resources_; ++r) {
      const Fill& fill = fills_[block * resources_ + r];
      // What all of them would overfill counts nowhere.
      if (fill.most_held == 0 || fill.least_used + asked[r] > fill.most_held) continue;
      const std::int64_t used = fill.most_used + asked[r];
      total += used >= fill.least_held ? 100 : divide(100 * used, fill.least_held);
    }
    most[block] = total == 0 ? 0 : mixed ? 100 : std::min<std::int64_t>(100, total / count);
  }
}

}  // namespace koord::placement
