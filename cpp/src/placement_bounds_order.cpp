// SPDX-License-Identifier: Apache-2.0
// RowBounds orders rows: when, and by what.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "koord/placement_bounds.hpp"

namespace koord::placement {
namespace {

// Rows are ordered anew once one in so many has changed, and in the other way where searches have
// looked at more than one in so many.
constexpr std::size_t kChanged = 8;
constexpr std::size_t kLooked = 4;

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
// of which as much is taken of resource 1: strips of a plane, cut into blocks. Closed ones come
// last.
void RowBounds::order_by_use(std::span<const std::uint8_t> open) {
  const auto strips = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(blocks_))));
  const std::size_t strip = strips > 0 ? (blocks_ + strips - 1) / strips * kBlock : 1;
  std::vector<Use> uses(rows_);
  for (std::size_t row = 0; row < rows_; ++row) uses[row] = use_of(row, 0, open);
  std::ranges::sort(uses);
  for (std::size_t first = 0; first < rows_; first += strip) {
    const std::span<Use> its = std::span(uses).subspan(first, std::min(rows_ - first, strip));
    for (Use& each : its) each = use_of(each.row, 1, open);
    std::ranges::sort(its);
  }
  for (std::size_t place = 0; place < rows_; ++place) order_[place] = uses[place].row;
}

RowBounds::Use RowBounds::use_of(std::size_t row, std::size_t resource,
                                 std::span<const std::uint8_t> open) const {
  const std::size_t place = places_[row];
  double share = 0;
  if (resource < resources_) {
    const std::size_t at = resource * rows_ + place;
    const auto offered = static_cast<double>(offered_[at]);
    share = offered > 0 ? static_cast<double>(taken_[at]) / offered : 1;
  }
  if (open[row] == 0) share = std::numeric_limits<double>::infinity();
  return {.share = share, .rank = place_ranks_[place], .row = row};
}

}  // namespace koord::placement
