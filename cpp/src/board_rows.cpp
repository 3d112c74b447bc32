// SPDX-License-Identifier: Apache-2.0
#include "board_rows.hpp"

#include <algorithm>

#include "placement_normal.hpp"
#include "vector_clones.hpp"

namespace koord::placement {
namespace {

// Without a branch a row.
template <class Refuses>
inline Turned refuse_each(std::uint64_t bit, std::size_t count, std::uint64_t* refused,
                          const Refuses& refuses) {
  Turned turned;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t before = refused[i];
    const std::uint64_t now = (before & ~bit) | (refuses(i) & bit);
    const auto was_open = static_cast<std::uint64_t>(before == 0);
    const auto is_open = static_cast<std::uint64_t>(now == 0);
    turned.flipped += was_open ^ is_open;
    turned.opened += is_open - was_open;
    refused[i] = now;
  }
  return turned;
}

}  // namespace

KOORD_VECTOR_CLONES Turned refuse_rows(std::uint64_t bit, std::span<const std::uint8_t> passes,
                                       std::uint64_t* refused) {
  return refuse_each(bit, passes.size(), refused,
                     [=](std::size_t i) { return passes[i] != 0 ? 0 : ~std::uint64_t{0}; });
}

KOORD_VECTOR_CLONES Turned refuse_rows(std::uint64_t bit, std::span<const std::int64_t> left,
                                       std::uint64_t* refused) {
  return refuse_each(bit, left.size(), refused,
                     [=](std::size_t i) { return left[i] < 0 ? ~std::uint64_t{0} : 0; });
}

KOORD_VECTOR_CLONES std::size_t open_rows(std::span<std::uint64_t> refused, std::uint64_t bit) {
  std::uint64_t open = 0;
  for (std::uint64_t& each : refused) {
    each &= bit;
    open += static_cast<std::uint64_t>(each == 0);
  }
  return open;
}

KOORD_VECTOR_CLONES void add_scores(std::int64_t weight, std::span<const std::int64_t> scores,
                                    std::int64_t* totals) {
  if (weight == 1) {
    for (std::size_t i = 0; i < scores.size(); ++i) totals[i] += scores[i];
    return;
  }
  for (std::size_t i = 0; i < scores.size(); ++i) totals[i] += weight * scores[i];
}

KOORD_VECTOR_CLONES void add_scores(std::span<const std::int32_t> scores, std::int64_t* totals) {
  for (std::size_t i = 0; i < scores.size(); ++i) totals[i] += scores[i];
}

KOORD_VECTOR_CLONES std::int64_t best_row(std::span<const std::uint64_t> refused,
                                          const std::int64_t* totals, const std::int64_t* ranks) {
  // Three loops: the most, its lowest rank, where that is.
  std::int64_t total = kLowest;
  for (std::size_t i = 0; i < refused.size(); ++i) {
    const std::int64_t its = refused[i] == 0 ? totals[i] : kLowest;
    total = its > total ? its : total;
  }
  std::int64_t rank = kHighest;
  for (std::size_t i = 0; i < refused.size(); ++i) {
    const std::int64_t its = refused[i] == 0 && totals[i] == total ? ranks[i] : kHighest;
    rank = its < rank ? its : rank;
  }
  for (std::size_t i = 0; i < refused.size(); ++i) {
    if (refused[i] == 0 && totals[i] == total && ranks[i] == rank) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

}  // namespace koord::placement
