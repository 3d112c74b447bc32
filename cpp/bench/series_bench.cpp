// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "bench.hpp"
#include "koord/series.hpp"

using koord::Percentile;
using koord::SeriesStore;
using koord::Summary;
using koord::bench::Register;

namespace {

constexpr std::size_t kSeries = 500;
constexpr std::int64_t kSamples = 300;

// 500 pods, five minutes at one sample a second, and the percentiles that node metrics report.
struct Agent {
  Agent() : store(kSamples), ids(kSeries), values(kSeries) {
    for (auto& id : ids) id = store.add();
    for (const double share : {0.5, 0.9, 0.95, 0.99}) {
      shares.push_back(Percentile::make(share).value());
    }
    for (std::int64_t i = 0; i < kSamples; ++i) tick();
  }
  void tick() {
    now_ms += 1000;
    for (std::size_t i = 0; i < kSeries; ++i) {
      values[i] = static_cast<double>((now_ms / 1000 * 7919 + static_cast<std::int64_t>(i)) % 1009);
    }
    store.append(now_ms, ids, values);
  }
  void summarize() {
    store.summarize(ids, {0, now_ms}, shares, summaries, out);
    koord::bench::keep(out);
  }

  SeriesStore store;
  std::int64_t now_ms = 0;
  std::vector<std::int64_t> ids;
  std::vector<double> values;
  std::vector<Percentile> shares;
  std::vector<Summary> summaries = std::vector<Summary>(kSeries);
  std::vector<double> out = std::vector<double>(kSeries * 4);
};

const Register kAppend("series/append a tick of 500",
                       [agent = Agent()]() mutable { agent.tick(); });
const Register kSummarize("series/summarize 500 x 300 samples",
                          [agent = Agent()]() mutable { agent.summarize(); });

}  // namespace
