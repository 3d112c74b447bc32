// SPDX-License-Identifier: Apache-2.0
// Scores of many rows at once, in doubles: loops over columns that compilers turn into vectors.
// What they give is what integers give, bit by bit; where that is not certain they say so and write
// nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace koord::placement {

// A resource as plain pointers: the loops over rows read columns.
struct Reading {
  const std::int64_t* has;
  const std::int64_t* used;
  std::int64_t request;
  std::int64_t weight;

  // What would be requested with the pod.
  template <class Row>
  [[nodiscard]] std::int64_t with_pod(Row row) const {
    return used[row] + request;
  }

  // What would be left then, below 0 where the pod does not fit.
  template <class Row>
  [[nodiscard]] std::int64_t left(Row row) const {
    return has[row] - used[row] - request;
  }
};

// Up to so many rows at a time: what is written in one step is still at hand in the next.
inline constexpr std::size_t kPart = 256;

// Puts the sign of what is left beside those that are there: below 0 where any is. For rows from
// `first` on.
void join_left(const Reading& each, std::size_t first, std::span<std::int64_t> left);

// The weighted mean of 100 * what is left (or used) / what a row has; for rows from `first` on.
bool weighted_part(std::span<const Reading> resources, bool left, std::size_t first,
                   std::span<std::int64_t> scores);

// What the resource counts of which a row has the least left, and what all weights are in sum.
struct LeastShare {
  std::int64_t weight = 0;
  std::int64_t weights = 1;
};

// The weighted mean of 100 * what is left / what a row has, at least 1, and of the lowest of them;
// for rows from `first` on.
bool left_part(std::span<const Reading> resources, const LeastShare& least, std::size_t first,
               std::span<std::int64_t> scores);

// 100 times one minus half the difference of two used fractions.
bool balanced_part(const Reading& one, const Reading& other, std::size_t first,
                   std::span<std::int64_t> scores);

// A resource of some rows by the two that bound them: `least` has least and uses most of it.
struct Range {
  Reading least;
  Reading most;
};

// What balanced_part() gives at most where each of two resources is within a range; 100 where a row
// may have none of one.
void bound_balanced_part(const Range& one, const Range& other, std::size_t first,
                         std::span<std::int64_t> scores);

// The least and the most of some values; least > most where there are none.
struct Ends {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min();

  void include(const Ends& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

// Of the values whose row is allowed; without those below 0 where these do not count.
Ends ends_of(std::span<const std::int64_t> values, const std::uint8_t* allowed, bool negative_too);

// Leaves of rows that are allowed, 1, those of the mask, or with nothing that is short; others are
// 0.
void allow_where(std::span<const std::uint8_t> mask, std::uint8_t* allowed);
void allow_where(std::span<const std::int64_t> left, std::uint8_t* allowed);

// Whether all values are surely within a power of two either way.
bool all_within(std::span<const std::int64_t> values, std::int64_t most);

}  // namespace koord::placement
