// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "koord/histogram.hpp"

using koord::DecayingHistogram;
using koord::ExponentialBuckets;
using koord::bench::Register;

namespace {

constexpr std::int64_t kMinuteMs = 60'000;
constexpr std::int64_t kHalfLifeMs = 12 * 60 * kMinuteMs;

DecayingHistogram filled() {
  DecayingHistogram histogram(std::make_shared<const ExponentialBuckets>(
                                  ExponentialBuckets::make(0.025, 1024, 1.05).value()),
                              kHalfLifeMs);
  for (int i = 0; i < 1000; ++i) histogram.add(0.01 * (i % 500), 1, i * kMinuteMs);
  return histogram;
}

const Register kAdd("histogram/add", [histogram = filled(), now = std::int64_t{0}]() mutable {
  now += kMinuteMs;
  histogram.add(0.7, 1, now);
});
const Register kPercentile("histogram/percentile", [histogram = filled()] {
  koord::bench::keep(histogram.percentile(0.95));
});
const Register kSave("histogram/save",
                     [histogram = filled()] { koord::bench::keep(histogram.save()); });

}  // namespace
