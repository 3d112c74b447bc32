// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
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

double seconds_per_call(const Benchmark& benchmark) {
  constexpr double kRoundSeconds = 0.05;
  constexpr int kRounds = 7;
  long calls = 1;
  while (seconds_for(benchmark, calls) < kRoundSeconds) calls *= 2;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double each = seconds_for(benchmark, calls) / static_cast<double>(calls);
    best = each < best ? each : best;
  }
  return best;
}

}  // namespace
}  // namespace koord::bench

int main(int argc, char** argv) {
  const std::string_view filter = argc > 1 ? argv[1] : "";
  const char* separator = "{\n";
  for (const auto& benchmark : koord::bench::registry()) {
    if (benchmark.name.find(filter) == std::string::npos) continue;
    std::printf("%s  \"%s\": %.9f", separator, benchmark.name.c_str(),
                koord::bench::seconds_per_call(benchmark));
    separator = ",\n";
  }
  std::printf("%s\n}\n", separator[0] == '{' ? "{" : "");
  return 0;
}
