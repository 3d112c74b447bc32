// SPDX-License-Identifier: Apache-2.0
// Schemata and the other texts of resctrl; then percentages, planned for a machine that the same
// bytes describe.
#include "fuzz.hpp"
#include "koord/resctrl.hpp"

using namespace koord::resctrl;  // NOLINT(google-build-using-namespace): an entry of one header
using koord::fuzz::Program;
using koord::fuzz::readable;

namespace {

void check_schemata(std::string_view text, int ids) {
  auto parsed = Schemata::parse(text, ids);
  FUZZ_CHECK(parsed.ok() || readable(parsed.error()));
  if (!parsed.ok()) return;
  Schemata schemata = parsed.value();
  FUZZ_CHECK(schemata.holds_in(schemata));
  (void)schemata.mb_valid();
  if (schemata.l3) (void)schemata.l3_valid(static_cast<int>(schemata.l3->size()));
  schemata.others.clear();
  auto again = Schemata::parse(schemata.format(), ids);
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again.value() == schemata);
}

void check_texts(std::string_view text) {
  for (const int ids : {-1, 0, 2}) check_schemata(text, ids);
  const auto l3_ids = parse_l3_ids(text);
  FUZZ_CHECK(l3_ids.ok() || readable(l3_ids.error()));
  auto mask = parse_cbm_mask(text);
  FUZZ_CHECK(mask.ok() || readable(mask.error()));
  if (mask.ok()) FUZZ_CHECK((mask.value() & (mask.value() + 1)) == 0);
  const auto counter = parse_counter(text);
  FUZZ_CHECK(counter.ok() || readable(counter.error()));
}

Limits limits_of(Program& program) {
  Limits limits;
  limits.cbm_mask = static_cast<std::uint32_t>((std::uint64_t{1} << program.below(33)) - 1);
  limits.min_cbm_bits = program.number(-1, 34);
  limits.shareable_bits = static_cast<std::uint32_t>(program.word());
  limits.num_closids = program.number(0, 9);
  limits.bandwidth_gran = program.signed_amount(koord::fuzz::kInt64Max);
  limits.min_bandwidth = program.signed_amount(koord::fuzz::kInt64Max);
  limits.amd_full_scale = program.signed_amount(koord::fuzz::kInt64Max);
  return limits;
}

void check_plan(Program program) {
  const Limits limits = limits_of(program);
  const Vendor vendor = program.flag() ? Vendor::kAmd : Vendor::kIntel;
  std::vector<std::int32_t> ids(program.below(5));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(program.amount(8191));
  std::vector<ClassPolicy> classes;
  while (!program.ended() && classes.size() < 8) {
    ClassPolicy& policy = classes.emplace_back();
    policy.name = std::string(1, static_cast<char>(program.byte()));
    if (program.flag()) policy.cat_range_start_percent = program.number(-2, 120);
    if (program.flag()) policy.cat_range_end_percent = program.signed_amount(200);
    if (program.flag()) policy.mba_percent = program.signed_amount(200);
    const std::int64_t start = policy.cat_range_start_percent.value_or(0);
    const std::int64_t end = policy.cat_range_end_percent.value_or(100);
    auto mask = cache_mask(limits, start, end);
    FUZZ_CHECK(mask.ok() || readable(mask.error()));
    if (mask.ok()) {
      FUZZ_CHECK(mask.value().bits != 0);
      FUZZ_CHECK((mask.value().bits & ~limits.cbm_mask) == 0);
    }
    auto value = bandwidth(vendor, limits, policy.mba_percent.value_or(100));
    FUZZ_CHECK(value.ok() || readable(value.error()));
    if (value.ok()) FUZZ_CHECK(value.value().value > 0);
  }
  auto planned = plan(vendor, limits, ids, classes);
  FUZZ_CHECK(planned.ok() || readable(planned.error()));
  if (planned.ok()) FUZZ_CHECK(planned.value().size() == classes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_texts(koord::fuzz::text_of(data, size));
  check_plan(Program(data, size));
  return 0;
}
