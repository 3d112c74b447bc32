// SPDX-License-Identifier: Apache-2.0
#include "board_rows.hpp"

#include <algorithm>
#include <array>

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

KOORD_VECTOR_CLONES std::int64_t best_total(std::span<const std::uint64_t> refused,
                                            std::span<const Addend> addends) {
  const std::size_t count = refused.size();
  std::array<std::int64_t, Board::kBlock> totals;
  // The first one is written, so that nothing need be cleared before.
  bool first = true;
  const auto put = [&](const auto& part) {
    if (first) {
      for (std::size_t i = 0; i < count; ++i) totals[i] = part(i);
    } else {
      for (std::size_t i = 0; i < count; ++i) totals[i] += part(i);
    }
    first = false;
  };
  for (const Addend& each : addends) {
    if (each.raw == nullptr) {
      put([parts = each.parts](std::size_t i) { return std::int64_t{parts[i]}; });
    } else if (each.weight == 1) {
      put([raw = each.raw](std::size_t i) { return raw[i]; });
    } else {
      put([raw = each.raw, by = each.weight](std::size_t i) { return by * raw[i]; });
    }
  }
  if (first) put([](std::size_t) { return std::int64_t{0}; });
  // By masks: compilers make no vectors of a branch that saves a read.
  std::int64_t best = kLowest;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t open = -static_cast<std::int64_t>(refused[i] == 0);
    const std::int64_t its = (totals[i] & open) | (kLowest & ~open);
    best = its > best ? its : best;
  }
  return best;
}

}  // namespace koord::placement
