// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_reserved.hpp"

#include <vector>

#include "../src/divide.hpp"
#include "check.hpp"
#include "koord/random.hpp"

using namespace koord::placement;
using koord::Exception;

namespace {

// Two nodes with CPU and places for pods, one reservation on each.
struct Cluster {
  std::vector<std::int64_t> allocatable = {1000, 1000, 10, 10};
  std::vector<std::int64_t> requested = {400, 1000, 1, 10};
  std::vector<std::int64_t> nonzero = {0, 0, 0, 0};
  std::vector<std::int64_t> held = {0, 0, 300, 600};
  std::vector<std::int64_t> used = {0, 0, 0, 450};
  std::vector<std::int64_t> remaining = {1, 0, 300, 150};
  std::vector<std::int64_t> limit = {10, 10, 300, 100};

  [[nodiscard]] Columns columns() const {
    return {allocatable.data(), requested.data(), nonzero.data(), 2, 2};
  }
  [[nodiscard]] Reserved reserved() const {
    return {held.data(), used.data(), remaining.data(), limit.data(), 2, 2};
  }
};

const ReservedAmount kPod{.resource = 1, .place = 0, .amount = 1, .shared = false};

std::vector<std::uint8_t> fit_of(const Cluster& cluster, std::int64_t cpu) {
  const std::vector<std::int64_t> both = {0, 1};
  std::vector<std::uint8_t> fit(2);
  const std::vector<ReservedAmount> asked = {kPod, {.resource = 0, .place = 1, .amount = cpu}};
  reserved_fit(cluster.columns(), cluster.reserved(), both, both, asked, fit);
  return fit;
}

}  // namespace

TEST("placement_reserved/a pod fits alone, beside, within, or not at all") {
  const Cluster cluster;
  CHECK_EQ(int{fit_of(cluster, 600)[0]}, kAlone | kBeside | kShares);
  CHECK_EQ(int{fit_of(cluster, 900)[0]}, kBeside | kShares);
  CHECK_EQ(int{fit_of(cluster, 300)[0]}, kAlone | kBeside | kWithin | kShares);
  // No place for one more pod, with or without the reservation.
  CHECK_EQ(int{fit_of(cluster, 100)[1]}, kWithin | kShares);
  CHECK_EQ(int{fit_of(cluster, 101)[1]}, kShares);
}

TEST("placement_reserved/scores are the mean share of what is held, overfull counts 0") {
  const Cluster cluster;
  const std::vector<std::int64_t> both = {0, 1};
  std::vector<std::int64_t> scores(2);
  const std::vector<ReservedAmount> asked = {kPod, {.resource = 0, .place = 1, .amount = 100}};
  reserved_scores(cluster.reserved(), both, asked, scores);
  CHECK_EQ(scores[0], 33);
  CHECK_EQ(scores[1], 91);
  reserved_scores(cluster.reserved(), both,
                  std::vector<ReservedAmount>{{.place = 1, .amount = 151}}, scores);
  CHECK_EQ(scores[1], 0);
}

TEST("placement_reserved/what is out of range is named") {
  const Cluster cluster;
  const std::vector<std::int64_t> one = {0};
  const std::vector<std::int64_t> far = {2};
  std::vector<std::uint8_t> fit(1);
  std::vector<std::int64_t> scores(1);
  const auto columns = cluster.columns();
  const auto reserved = cluster.reserved();
  CHECK_THROWS(reserved_fit(columns, reserved, far, one, {}, fit), Exception);
  CHECK_THROWS(reserved_fit(columns, reserved, one, far, {}, fit), Exception);
  CHECK_THROWS(reserved_fit(columns, reserved, one, {}, {}, fit), Exception);
  const std::vector<ReservedAmount> bad = {{.resource = 2}};
  CHECK_THROWS(reserved_fit(columns, reserved, one, one, bad, fit), Exception);
  CHECK_THROWS(reserved_scores(reserved, one, std::vector<ReservedAmount>{{.place = 2}}, scores),
               Exception);
}

TEST("placement_reserved/doubles divide as whole numbers do") {
  koord::SplitMix64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const auto divisor =
        static_cast<std::int64_t>(random.below(std::uint64_t{1} << (1 + i % 54))) + 1;
    const auto times = static_cast<std::int64_t>(
        random.below((std::uint64_t{1} << 54) / static_cast<std::uint64_t>(divisor) + 1));
    for (const std::int64_t more : {-1, 0, 1}) {
      const std::int64_t dividend = times * divisor + more;
      CHECK_EQ(koord::divide(dividend, divisor), dividend / divisor);
    }
  }
}
