// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string_view>

#include "bench.hpp"

namespace koord::bench {

std::vector<Benchmark>& registry() {
  static std::vector<Benchmark> all;
  return all;
}

namespace {

double seconds_for(const Benchmark& benchmark, long calls) {
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < calls; ++i) benchmark.body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One benchmark that the filter chose.
struct Timing {
  const Benchmark* benchmark;
  long calls;  // a round
  double best = std::numeric_limits<double>::infinity();
};

Timing calibrated(const Benchmark& benchmark) {
  constexpr double kRoundSeconds = 0.05;
  long calls = 1;
  while (seconds_for(benchmark, calls) < kRoundSeconds) calls *= 2;
  return {&benchmark, calls};
}

// Rounds go over all benchmarks in turn, so that a busy spell of the machine falls on all alike and
// their ratios hold.
std::vector<Timing> measure(std::string_view filter) {
  constexpr int kRounds = 7;
  std::vector<Timing> timings;
  for (const auto& benchmark : registry()) {
    if (benchmark.name.find(filter) != std::string::npos) timings.push_back(calibrated(benchmark));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Timing& timing : timings) {
      const double each = seconds_for(*timing.benchmark, timing.calls);
      timing.best = std::min(timing.best, each / static_cast<double>(timing.calls));
    }
  }
  return timings;
}

// Where nobody compares seconds: whether all run. How many there are.
int run_once(std::string_view filter) {
  int count = 0;
  for (const auto& benchmark : registry()) {
    if (benchmark.name.find(filter) == std::string::npos) continue;
    benchmark.body();
    ++count;
  }
  return count;
}

void print_json(const std::vector<Timing>& timings) {
  const char* separator = "{\n";
  for (const Timing& timing : timings) {
    std::printf("%s  \"%s\": %.9f", separator, timing.benchmark->name.c_str(), timing.best);
    separator = ",\n";
  }
  std::printf("%s\n}\n", timings.empty() ? "{" : "");
}

void print_table(const std::vector<Timing>& timings) {
  for (const Timing& timing : timings) {
    std::printf("%-72s %12.3f us\n", timing.benchmark->name.c_str(), timing.best * 1e6);
  }
}

}  // namespace
}  // namespace koord::bench

// koord_bench [--json | --once] [FILTER]
int main(int argc, char** argv) {
  using namespace std::string_view_literals;
  const bool json = argc > 1 && argv[1] == "--json"sv;
  const bool once = argc > 1 && argv[1] == "--once"sv;
  const int at = json || once ? 2 : 1;
  const std::string_view filter = argc > at ? argv[at] : "";
  if (once) {
    std::printf("%d benchmarks run\n", koord::bench::run_once(filter));
    return 0;
  }
  const auto timings = koord::bench::measure(filter);
  json ? koord::bench::print_json(timings) : koord::bench::print_table(timings);
  return 0;
}
