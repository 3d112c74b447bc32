// SPDX-License-Identifier: Apache-2.0
// RowBounds orders rows: when, and by what.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "koord/placement_bounds.hpp"

namespace koord::placement {
namespace {

// Rows are ordered anew once one in so many has changed, and in the other way where searches have
// looked at more than one in so many.
constexpr std::size_t kChanged = 32;
constexpr std::size_t kLooked = 4;
// Shares of what rows have are told apart in so many bits; closed rows have one more than all.
constexpr unsigned kShareBits = 16;
constexpr std::uint64_t kClosed = (std::uint64_t{1} << kShareBits) - 1;
constexpr unsigned kDigitBits = 8;

// Orders rows by the key of each, those of equal keys as they stood: digit by digit, from the last.
void sort_by(std::span<const std::uint64_t> keys, std::vector<std::size_t>& rows) {
  constexpr std::uint64_t kDigits = std::uint64_t{1} << kDigitBits;
  const std::uint64_t most = keys.empty() ? 0 : std::ranges::max(keys);
  std::vector<std::size_t> sorted(rows.size());
  for (unsigned shift = 0; shift < 64 && most >> shift != 0; shift += kDigitBits) {
    std::array<std::size_t, kDigits + 1> starts = {};
    const auto digit = [&](std::size_t row) { return keys[row] >> shift & (kDigits - 1); };
    for (const std::size_t row : rows) ++starts[digit(row) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (const std::size_t row : rows) sorted[starts[digit(row)]++] = row;
    rows.swap(sorted);
  }
}

}  // namespace

// Whether enough has changed to order rows anew. Decides by what searches have cost since the last
// time which way that is; rows that are and stay in the order given need no new one.
bool RowBounds::is_order_due() {
  if (changed_ < std::max(kBlock, rows_ / kChanged)) return false;
  const bool far = searches_ > 0 && searched_ / searches_ > rows_ / kLooked;
  changed_ = searches_ = searched_ = 0;
  const bool was_by_use = by_use_;
  if (far && !keeps_order_) by_use_ = !by_use_;
  return by_use_ || was_by_use;
}

// Orders rows anew and reads all of them.
void RowBounds::order_rows(const Columns& columns, std::span<const std::uint8_t> open,
                           std::span<const std::int64_t> ranks) {
  if (by_use_) {
    order_by_use(open);
  } else {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }
  for (std::size_t place = 0; place < rows_; ++place) places_[order_[place]] = place;
  for (std::size_t row = 0; row < rows_; ++row) copy_row(row, columns, open, ranks);
  for (std::size_t block = 0; block < blocks_; ++block) read_block(block);
}

// Rows of which about as much is taken of resource 0 stand beside each other, and among these those
// of which as much is taken of resource 1: strips of a plane, cut into blocks. Equal ones stand by
// their rank, closed ones last.
void RowBounds::order_by_use(std::span<const std::uint8_t> open) {
  const auto strips = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(blocks_))));
  const std::size_t strip = strips > 0 ? (blocks_ + strips - 1) / strips * kBlock : 1;
  std::vector<std::uint64_t> keys(rows_);
  for (std::size_t row = 0; row < rows_; ++row) {
    keys[row] = static_cast<std::uint64_t>(place_ranks_[places_[row]]);
  }
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  sort_by(keys, order_);
  for (std::size_t row = 0; row < rows_; ++row) keys[row] = share_of(row, 0, open);
  std::vector<std::size_t> by_share = order_;
  sort_by(keys, by_share);
  for (std::size_t at = 0; at < rows_; ++at) {
    const std::size_t row = by_share[at];
    keys[row] = at / strip << kShareBits | share_of(row, 1, open);
  }
  sort_by(keys, order_);
}

// The share of a resource that is taken of a row.
std::uint64_t RowBounds::share_of(std::size_t row, std::size_t resource,
                                  std::span<const std::uint8_t> open) const {
  if (open[row] == 0) return kClosed;
  if (resource >= resources_) return 0;
  const std::size_t at = resource * rows_ + places_[row];
  const auto offered = static_cast<double>(offered_[at]);
  const double share = offered > 0 ? static_cast<double>(taken_[at]) / offered : 1;
  return static_cast<std::uint64_t>(std::clamp(share, 0.0, 1.0) * (kClosed - 1));
}

}  // namespace koord::placement
