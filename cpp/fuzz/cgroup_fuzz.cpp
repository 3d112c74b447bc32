// SPDX-License-Identifier: Apache-2.0
// The texts of cgroup and /proc files, and the conversions between v1 and v2.
#include "fuzz.hpp"
#include "koord/cgroup_parse.hpp"

using namespace koord::cgroup;  // NOLINT(google-build-using-namespace): an entry of one header
using koord::Result;
using koord::fuzz::Program;
using koord::fuzz::readable;

namespace {

template <class T>
bool sound(const Result<T>& result) {
  FUZZ_CHECK(result.ok() || readable(result.error()));
  return result.ok();
}

void check_numbers(std::string_view text) {
  for (const std::int64_t when_max : {std::int64_t{-1}, kInt32Max, koord::cgroup::kInt64Max}) {
    sound(parse_int64("field", text, when_max));
  }
  sound(parse_memory_limit(text));
  sound(parse_cpu_max_quota(text));
  sound(parse_cpu_max_period(text));
  for (const Version version : {Version::kV1, Version::kV2}) {
    auto before = parse_cpu_stat(text, version);
    if (sound(before)) {
      CpuStat after = before.value();
      FUZZ_CHECK(throttled_ratio(after, after) == 0);
      (void)throttled_ratio(CpuStat(), after);
      (void)throttled_ratio(after, CpuStat());
    }
    sound(parse_cpu_usage_ns(text, version));
    auto memory = parse_memory_stat(text, version);
    if (sound(memory)) {
      (void)memory.value().usage();
      (void)memory.value().usage_with_page_cache();
    }
    sound(parse_numa_stat(text, version));
  }
}

void check_tables(std::string_view text) {
  FUZZ_CHECK(parse_key_values(text).size() <= text.size());
  sound(parse_pressure(text));
  auto idle = parse_idle_page_stats(text);
  if (sound(idle)) {
    for (const int boundary : {-1, 0, 1, 5, 1000}) sound(idle.value().cold_bytes(boundary));
  }
  FUZZ_CHECK(idle.ok() || !parse_cold_bytes(text).ok());
  sound(parse_proc_stat(text));
  auto ids = parse_ids(text);
  if (sound(ids)) {
    auto missing = ids_to_add(text, ids.value());
    FUZZ_CHECK(missing.ok() && missing.value().empty());
  }
  sound(ids_to_add(text, {3, 1, 3, -1}));
  sound(parse_device_values(text));
  const SchedFeatures features = parse_sched_features(text);
  FUZZ_CHECK(features.enabled.size() + features.conflicts.size() <= text.size());
}

void check_conversions(Program program) {
  for (int i = 0; i < 4; ++i) {
    const std::int64_t amount = program.signed_amount(koord::fuzz::kInt64Max);
    auto weight = shares_to_weight(amount);
    if (sound(weight)) {
      FUZZ_CHECK(weight.value() >= kWeightMin && weight.value() <= kWeightMax);
      FUZZ_CHECK(sound(weight_to_shares(weight.value())));
    }
    auto shares = weight_to_shares(amount);
    if (sound(shares)) FUZZ_CHECK(shares.value() >= kSharesMin && shares.value() <= kSharesMax);
    FUZZ_CHECK(milli_cpu_to_shares(amount) >= kSharesMin);
    FUZZ_CHECK(milli_cpu_to_quota_us(amount) >= -1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = koord::fuzz::text_of(data, size);
  check_numbers(text);
  check_tables(text);
  check_conversions(Program(data, size));
  return 0;
}
