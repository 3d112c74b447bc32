// SPDX-License-Identifier: Apache-2.0
// One series and a store of several, given the same samples as a program says.
#include <cmath>

#include "fuzz.hpp"
#include "koord/series.hpp"

using koord::Appended;
using koord::Percentile;
using koord::Series;
using koord::SeriesStore;
using koord::Summary;
using koord::Window;
using koord::fuzz::accepted;
using koord::fuzz::Program;

namespace {

const std::vector<Percentile>& shares() {
  static const std::vector<Percentile> kShares{
      Percentile::make(0.001).value(), Percentile::make(0.5).value(), Percentile::make(1).value()};
  return kShares;
}

void check_summary(const Summary& summary, const std::vector<double>& found, std::size_t most) {
  FUZZ_CHECK(summary.count >= 0 && summary.count <= static_cast<std::int64_t>(most));
  if (summary.count == 0) {
    for (const double value : found) FUZZ_CHECK(std::isnan(value));
    return;
  }
  FUZZ_CHECK(summary.oldest_ms <= summary.newest_ms);
  FUZZ_CHECK(found[0] <= found[1] && found[1] <= found[2]);
}

class Pair {
 public:
  explicit Pair(std::size_t capacity)
      : single_(capacity), store_(capacity), id_(store_.add()), other_(store_.add()) {}

  void append(std::int64_t time_ms, double value) {
    Appended what = Appended::kTooOld;
    const bool finite = accepted([&] { what = single_.append(time_ms, value); });
    FUZZ_CHECK(finite == std::isfinite(value));
    const std::int64_t ids[] = {id_};
    const double values[] = {value};
    const std::size_t taken = store_.append(time_ms, ids, values);
    if (alone_) FUZZ_CHECK(taken == (finite && what == Appended::kTaken ? 1U : 0U));
  }
  void append_other(std::int64_t time_ms, double value) {
    const std::int64_t ids[] = {other_};
    const double values[] = {value};
    alone_ = false;
    FUZZ_CHECK(store_.append(time_ms, ids, values) <= 1);
  }
  void replace_other() {
    store_.remove(other_);
    other_ = store_.add();
    FUZZ_CHECK(store_.size() == 2);
  }
  void resize(std::size_t capacity) {
    alone_ = false;
    accepted([&] { store_.resize(capacity); });
  }
  void check(Window window) const {
    std::vector<double> scratch;
    std::vector<double> found(shares().size());
    const Summary summary = single_.summarize(window, shares(), found, scratch);
    FUZZ_CHECK(single_.size() <= single_.capacity());
    check_summary(summary, found, single_.capacity());
    const std::int64_t ids[] = {id_};
    std::vector<Summary> summaries(1);
    std::vector<double> stored(shares().size());
    store_.summarize(ids, window, shares(), summaries, stored);
    check_summary(summaries[0], stored, std::size_t{1} << 24);
    if (!alone_) return;
    FUZZ_CHECK(summaries[0].count == summary.count);
    if (summary.count > 0) FUZZ_CHECK(stored == found);
  }

 private:
  Series single_;
  SeriesStore store_;
  std::int64_t id_, other_;
  bool alone_ = true;  // both were told the same and nothing else
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(data, size);
  for (int i = 0; i < 2; ++i) {
    const double share = static_cast<double>(program.signed_amount(2000)) / 1000;
    auto made = Percentile::make(share);
    if (!made.ok()) continue;
    FUZZ_CHECK(share > 0 && share <= 1);
    const auto count = static_cast<std::size_t>(program.amount(1 << 24)) + 1;
    FUZZ_CHECK(made.value().index(count) < count);
  }
  Pair pair(static_cast<std::size_t>(program.number(1, 12)));
  std::int64_t now = program.flag() ? 0 : program.signed_amount(koord::fuzz::kInt64Max);
  for (int steps = 0; steps < 100 && !program.ended(); ++steps) {
    if (__builtin_add_overflow(now, program.number(-20, 100) * 1000, &now)) now = 0;
    double value = static_cast<double>(program.signed_amount(koord::fuzz::kInt64Max));
    switch (program.below(12)) {
      case 0:
        pair.check({program.signed_amount(koord::fuzz::kInt64Max),
                    program.signed_amount(koord::fuzz::kInt64Max)});
        break;
      case 1:
        pair.append_other(now, value);
        break;
      case 2:
        pair.replace_other();
        break;
      case 3:
        pair.resize(static_cast<std::size_t>(program.number(0, 20)));
        break;
      case 4:
        value = value * 1e300 * 1e300;  // infinite, or no number
        pair.append(now, value);
        break;
      case 5:
        pair.append(program.signed_amount(koord::fuzz::kInt64Max), value);
        break;
      default:
        pair.append(now, value);
    }
  }
  pair.check({std::numeric_limits<std::int64_t>::min(), koord::fuzz::kInt64Max});
  return 0;
}
