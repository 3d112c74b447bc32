// SPDX-License-Identifier: Apache-2.0
#include "koord/fragmentation.hpp"

#include <cmath>

#include "check.hpp"

using namespace koord::devices;

namespace {

FragmentationMeasure example() {
  return FragmentationMeasure({{{2000, 500, 1, ""}, 0.4},
                               {{4000, 1000, 1, ""}, 0.3},
                               {{6000, 1000, 2, ""}, 0.1},
                               {{1000, 0, 0, ""}, 0.2}});
}

double amount(std::int64_t cpu, const std::vector<std::int64_t>& gpus) {
  const FragmentationMeasure measure = example();
  return measure.amount(cpu, measure.profile(gpus), measure.accepted("T4"));
}

}  // namespace

TEST("fragmentation/worked examples") {
  CHECK(std::abs(amount(16000, {1000, 1000}) - 400) < 1e-9);
  CHECK(std::abs(amount(14000, {500, 1000}) - 600) < 1e-9);
  CHECK(std::abs(amount(14000, {600, 700}) - 780) < 1e-9);
  CHECK(std::abs(amount(4000, {1000, 1000}) - 600) < 1e-9);
}

TEST("fragmentation/a moved profile is the one made afresh") {
  const FragmentationMeasure measure = example();
  GpuProfile moved;
  measure.move(measure.profile(std::vector<std::int64_t>{1000, 700}), 700, 200, moved);
  const auto accepted = measure.accepted("");
  const auto want =
      measure.sums(9000, measure.profile(std::vector<std::int64_t>{1000, 200}), accepted);
  CHECK(measure.sums(9000, moved, accepted) == want);
  CHECK_EQ(moved.free_milli(), 1200);
}

TEST("fragmentation/models are alternatives, empty ones are skipped") {
  CHECK(accepts_model("", "T4"));
  CHECK(accepts_model("|", "T4"));
  CHECK(accepts_model("P100|T4", "T4"));
  CHECK(accepts_model("||T4|", "T4"));
  CHECK(!accepts_model("P100|T40", "T4"));
}

TEST("fragmentation/typical pods are counted, ordered and cut at the coverage") {
  const TypicalPods pods =
      typical_pods({{{1, 0, 0, ""}, 5}, {{2, 0, 0, ""}, 90}, {{3, 0, 0, ""}, 5}}, 95);
  CHECK_EQ(pods.size(), 2U);
  CHECK_EQ(pods[0].shape.cpu_milli, 2);
  CHECK_EQ(pods[1].shape.cpu_milli, 3);  // equally frequent: the larger shape
  CHECK_EQ(pods[0].frequency, (90.0 / 100.0) / (95.0 / 100.0));
  CHECK_THROWS(typical_pods({{{-1, 0, 0, ""}, 1}}), koord::Exception);
}

TEST("fragmentation/the gradient's score truncates") {
  CHECK_EQ(gradient_score(0, 0), 50);
  CHECK_EQ(gradient_score(40.0, 0), 50);
  CHECK_EQ(gradient_score(40.01, 0), 51);
  CHECK_EQ(gradient_score(0, 0.001), 49);
  CHECK_EQ(gradient_score(0, 1e9), 0);
  CHECK_EQ(gradient_score(1e9, 0), 100);
}
