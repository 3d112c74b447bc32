// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_load.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "divide.hpp"
#include "placement_score.hpp"
#include "vector_clones.hpp"

namespace koord::placement {
namespace {

void check_load(const LoadColumns& columns, std::span<const std::int64_t> amounts,
                const Freshness& freshness, RowSet rows) {
  if (amounts.size() != columns.resources) {
    throw Exception(invalid("amounts", std::to_string(amounts.size()), "one a resource"));
  }
  const std::size_t known = std::min(columns.stride, freshness.until.size());
  const bool in_a_row = rows.index == nullptr && rows.first >= 0;
  if (in_a_row && static_cast<std::size_t>(rows.first) + rows.count <= known) return;
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (rows[i] >= 0 && static_cast<std::size_t>(rows[i]) < known) continue;
    throw Exception(not_found("row", std::to_string(rows[i]), "a row of the columns"));
  }
}

std::int64_t checked_sum(const LoadWeights& weights, std::size_t resources) {
  if (weights.by_resource.size() != resources) {
    const std::string given = std::to_string(weights.by_resource.size());
    throw Exception(invalid("weights", given, "one a resource"));
  }
  std::int64_t sum = weights.dominant;
  for (const std::int64_t each : weights.by_resource) {
    if (each < 0) throw Exception(invalid("weight", std::to_string(each), "0 or more"));
    sum += each;
  }
  if (weights.dominant < 0) {
    throw Exception(invalid("weight", std::to_string(weights.dominant), "0 or more"));
  }
  return sum;
}

std::int64_t score_row(std::span<const Reading> resources, const LeastShare& least,
                       std::int64_t row) {
  std::int64_t sum = 0;
  std::int64_t lowest = 100;
  for (const Reading& each : resources) {
    const std::int64_t left = std::max<std::int64_t>(each.left(row), 0);
    const std::int64_t share = divide(left * 100, std::max<std::int64_t>(each.has[row], 1));
    sum += each.weight * share;
    lowest = std::min(lowest, share);
  }
  return (sum + least.weight * lowest) / least.weights;
}

KOORD_VECTOR_CLONES void clear_expired(const Freshness& freshness, std::size_t first,
                                       std::span<std::int64_t> scores) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = freshness.until[first + i] > freshness.now ? scores[i] : 0;
  }
}

KOORD_VECTOR_CLONES void expire(const Freshness& freshness, bool expired, std::size_t first,
                                std::span<std::uint8_t> within) {
  const auto other = static_cast<std::uint8_t>(expired ? 1 : 0);
  for (std::size_t i = 0; i < within.size(); ++i) {
    within[i] = freshness.until[first + i] > freshness.now ? within[i] : other;
  }
}

}  // namespace

void load_scores(const LoadRating& rating, RowSet rows, std::span<std::int64_t> scores) {
  const auto& [columns, amounts, weights, freshness] = rating;
  check_load(columns, amounts, freshness, rows);
  const std::int64_t sum = checked_sum(weights, columns.resources);
  std::vector<Reading> resources;
  for (std::size_t i = 0; i < columns.resources; ++i) {
    const std::int64_t weight = weights.by_resource[i];
    if (weight == 0 && weights.dominant == 0) continue;
    const std::size_t from = i * columns.stride;
    resources.push_back({columns.bound + from, columns.used + from, amounts[i], weight});
  }
  const LeastShare least{weights.dominant, std::max<std::int64_t>(sum, 1)};
  for (std::size_t at = 0; rows.index == nullptr && at < rows.count; at += kPart) {
    const std::size_t first = static_cast<std::size_t>(rows.first) + at;
    const std::span<std::int64_t> part = scores.subspan(at, std::min(kPart, rows.count - at));
    if (!left_part(resources, least, first, part)) {
      for (std::size_t i = 0; i < part.size(); ++i) {
        part[i] = score_row(resources, least, static_cast<std::int64_t>(first + i));
      }
    }
    clear_expired(freshness, first, part);
  }
  for (std::size_t i = 0; rows.index != nullptr && i < rows.count; ++i) {
    const bool counts = freshness.until[static_cast<std::size_t>(rows[i])] > freshness.now;
    scores[i] = counts ? score_row(resources, least, rows[i]) : 0;
  }
}

void load_within(const LoadCheck& check, RowSet rows, std::span<std::uint8_t> within) {
  const auto& [columns, amounts, freshness, expired] = check;
  check_load(columns, amounts, freshness, rows);
  std::array<std::int64_t, kPart> left;
  for (std::size_t at = 0; at < rows.count; at += kPart) {
    const std::size_t count = std::min(kPart, rows.count - at);
    std::fill_n(left.begin(), count, std::int64_t{0});
    for (std::size_t resource = 0; resource < columns.resources; ++resource) {
      const std::size_t from = resource * columns.stride;
      const Reading each{columns.bound + from, columns.used + from, amounts[resource], 1};
      if (rows.index == nullptr) {
        join_left(each, static_cast<std::size_t>(rows.first) + at, {left.data(), count});
        continue;
      }
      for (std::size_t i = 0; i < count; ++i) left[i] |= each.left(rows[at + i]);
    }
    for (std::size_t i = 0; i < count; ++i) within[at + i] = left[i] < 0 ? 0 : 1;
  }
  if (rows.index == nullptr) {
    return expire(freshness, expired, static_cast<std::size_t>(rows.first), within);
  }
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (freshness.until[static_cast<std::size_t>(rows[i])] > freshness.now) continue;
    within[i] = expired ? 1 : 0;
  }
}

}  // namespace koord::placement
