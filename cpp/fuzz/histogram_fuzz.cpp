// SPDX-License-Identifier: Apache-2.0
// Two histograms that samples go into and out of as a program says, saved and loaded.
#include <cmath>

#include "fuzz.hpp"
#include "koord/histogram.hpp"

using koord::DecayingHistogram;
using koord::ExponentialBuckets;
using koord::HistogramCheckpoint;
using koord::fuzz::accepted;
using koord::fuzz::Program;

namespace {

constexpr std::int64_t kHalfLifeMs = 86'400'000;

double number_of(Program& program) {
  const auto whole = static_cast<double>(program.signed_amount(koord::fuzz::kInt64Max));
  switch (program.below(8)) {
    case 0:
      return whole / 1000;
    case 1:
      return whole * 1e290;
    case 2:
      return whole * 1e300 * 1e300;  // infinite, or no number
    default:
      return std::fabs(whole);
  }
}

void check(const DecayingHistogram& histogram) {
  FUZZ_CHECK(histogram.total_weight() >= 0);
  for (const double weight : histogram.weights()) FUZZ_CHECK(weight >= 0);
  double before = 0;
  for (const double share : {0.0, 0.5, 0.95, 1.0}) {
    const double value = histogram.percentile(share);
    FUZZ_CHECK(std::isfinite(value) && value >= before);
    before = value;
  }
}

void load_some(Program& program, DecayingHistogram& histogram) {
  HistogramCheckpoint checkpoint;
  checkpoint.reference_ms = program.signed_amount(koord::fuzz::kInt64Max);
  checkpoint.total_weight = number_of(program);
  for (std::size_t left = program.below(5); left > 0; --left) {
    checkpoint.weights.emplace_back(program.signed_amount(50),
                                    static_cast<std::uint32_t>(program.amount(UINT32_MAX)));
  }
  const double total = histogram.total_weight();
  if (!accepted([&] { histogram.load(checkpoint); })) {
    FUZZ_CHECK(histogram.total_weight() == total);
  }
}

void step(Program& program, DecayingHistogram& histogram, const DecayingHistogram& other,
          std::int64_t now) {
  const double value = number_of(program);
  const double weight = number_of(program);
  switch (program.below(8)) {
    case 0:
      accepted([&] { histogram.subtract(value, weight, now); });
      break;
    case 1:
      histogram.merge(other);
      break;
    case 2:
      load_some(program, histogram);
      break;
    case 3: {
      const HistogramCheckpoint saved = histogram.save();
      DecayingHistogram loaded = histogram;
      accepted([&] { loaded.load(saved); });
      check(loaded);
      break;
    }
    default:
      accepted([&] { histogram.add(value, weight, now); });
  }
  check(histogram);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(data, size);
  auto odd = ExponentialBuckets::make(number_of(program), number_of(program),
                                      1 + number_of(program) / 100);
  FUZZ_CHECK(odd.ok() || koord::fuzz::readable(odd.error()));
  if (odd.ok()) {
    FUZZ_CHECK(odd.value().count() <= 10'000);
    FUZZ_CHECK(odd.value().find(number_of(program)) < odd.value().count());
  }
  static const auto kBuckets = std::make_shared<const ExponentialBuckets>(
      ExponentialBuckets::make(0.025, 1000, 1.3).value());
  std::vector<DecayingHistogram> both(2, DecayingHistogram(kBuckets, kHalfLifeMs));
  std::int64_t now = program.flag() ? 0 : 1'700'000'000'000;
  for (int steps = 0; steps < 32 && !program.ended(); ++steps) {
    const std::size_t which = program.below(2);
    now += std::int64_t{program.number(-20, 200)} * kHalfLifeMs / 10;
    const bool far = program.below(16) == 0;
    step(program, both[which], both[1 - which],
         far ? program.signed_amount(koord::fuzz::kInt64Max) : now);
  }
  return 0;
}
