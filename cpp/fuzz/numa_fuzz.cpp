// SPDX-License-Identifier: Apache-2.0
// Zones, what is left on them, how requests are spread, hints and what merging makes of them.
#include "fuzz.hpp"
#include "koord/numa.hpp"

using namespace koord::numa;  // NOLINT(google-build-using-namespace): an entry of one header
using koord::Result;
using koord::fuzz::Program;

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 61;
constexpr std::size_t kColumns = 3;

template <class T>
bool sound(const Result<T>& result) {
  FUZZ_CHECK(result.ok() || koord::fuzz::readable(result.error()));
  return result.ok();
}

std::int64_t amount_of(Program& program) {
  const std::uint64_t what = program.below(64);
  if (what == 0) return program.signed_amount(koord::fuzz::kInt64Max);
  return program.amount(what < 8 ? kMost : 100'000);
}

std::vector<Column> columns_of(Program& program, std::size_t zones) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < kColumns; ++i) {
    Column& column = columns.emplace_back();
    column.kind = static_cast<Kind>(i);
    column.listed = ~Mask{program.below(8) == 0 ? program.byte() : std::uint8_t{0}};
    if (zones < kMaxZones) column.listed &= (Mask{1} << zones) - 1;
    for (std::size_t zone = 0; zone < zones; ++zone) {
      column.amount.push_back((column.listed >> zone & 1U) != 0 ? amount_of(program) : 0);
    }
  }
  return columns;
}

CpuSupply supply_of(Program& program, std::size_t zones) {
  CpuSupply supply;
  supply.needed = program.amount(64);
  for (std::size_t zone = 0; zone < zones; ++zone) supply.bindable.push_back(program.amount(64));
  const std::uint8_t flags = program.byte();
  supply.required = (flags & 1U) != 0;
  supply.full_cores = (flags & 2U) != 0;
  supply.threads_per_core = program.number(0, 4);
  if ((flags & 4U) != 0) {
    supply.accepts = [](std::span<const std::int64_t> counts) { return counts.size() != 1; };
  }
  return supply;
}

std::vector<Demand> demands_of(Program& program) {
  std::vector<Demand> demands;
  for (std::size_t left = program.below(4); left > 0; --left) {
    const std::int64_t amount = amount_of(program);
    demands.push_back({program.below(kColumns), amount, program.flag() ? amount : 0});
  }
  return demands;
}

void check_spread(Program& program, const std::vector<Column>& left,
                  const std::vector<Demand>& demands, std::size_t zones) {
  const CpuSupply supply = supply_of(program, zones);
  const Mask mask = program.below(4) == 0 ? program.word() : Mask{1} + program.below(1U << zones);
  const bool bound = program.flag();
  auto spread = distribute(left, demands, mask, zones, bound ? &supply : nullptr);
  if (!sound(spread)) return;
  const std::vector<std::int64_t>& taken = spread.value().taken;
  FUZZ_CHECK(taken.size() == demands.size() * zones);
  for (std::size_t i = 0; i < demands.size(); ++i) {
    // Bound CPUs are whole ones, so the last zone may be asked for more than remains.
    const bool whole = bound && left[demands[i].column].kind == Kind::kCpu;
    std::int64_t rest = demands[i].amount + (whole ? 999 : 0);
    for (std::size_t zone = 0; zone < zones; ++zone) {
      const std::int64_t part = taken[i * zones + zone];
      FUZZ_CHECK(part >= 0 && part <= rest);
      FUZZ_CHECK(part == 0 || (mask >> zone & 1U) != 0);
      FUZZ_CHECK(part <= left[demands[i].column].amount[zone]);
      rest -= part;
    }
  }
}

HintQuery query_of(Program& program, std::size_t zones, const std::vector<Column>& total,
                   const std::vector<Column>& left) {
  HintQuery query{.zones = zones,
                  .total = total,
                  .available = left,
                  .demands = demands_of(program),
                  .pools = {},
                  .scorer = {},
                  .prefer_every_size = program.flag()};
  query.pools.push_back({left, {}});
  if (program.flag()) query.pools.back().cpus = supply_of(program, zones);
  if (program.flag()) query.pools.push_back({columns_of(program, zones), {}});
  if (program.flag()) {
    query.scorer = Scorer{static_cast<Strategy>(program.below(2)), {}};
    for (std::size_t i = 0; i < kColumns; ++i) {
      query.scorer->weights.push_back(program.amount(program.below(8) == 0 ? kMost : 100));
    }
  }
  return query;
}

// Merged as a provider's hints are, and what is admitted is some of the machine.
void check_merge(Program& program, const ZoneSet& zones,
                 const std::vector<std::optional<HintList>>& hints) {
  Machine machine{zones, static_cast<Exclusive>(program.below(3)), {}};
  for (std::size_t zone = 0; zone < zones.size(); ++zone) {
    machine.statuses.push_back(static_cast<Status>(program.below(3)));
  }
  Provider provider;
  for (std::size_t i = 0; i < hints.size(); ++i) {
    if (hints[i]) FUZZ_CHECK(hints[i]->size() < std::size_t{1} << zones.size());
    provider.resources.push_back({"r" + std::to_string(i), hints[i] ? &*hints[i] : nullptr});
  }
  const std::vector<Provider> providers{provider};
  const auto policy = static_cast<Policy>(program.below(4));
  auto decided = admit(policy, machine, providers);
  if (!sound(decided)) return;
  const Decision& decision = decided.value();
  if (decision.hint.affinity) {
    FUZZ_CHECK((*decision.hint.affinity & ~zones.all()) == 0);
    FUZZ_CHECK(zones.mask_of(zones.ids_of(*decision.hint.affinity)).value() ==
               *decision.hint.affinity);
  }
  for (const std::string& reason : decision.reasons) FUZZ_CHECK(reason.size() <= 4096);
}

std::vector<int> ids_of(Program& program) {
  std::vector<int> ids;
  for (std::size_t left = 1 + program.below(4); left > 0; --left) {
    ids.push_back(program.below(32) == 0 ? static_cast<int>(program.signed_amount(2000))
                                         : static_cast<int>(ids.size() * 3));
  }
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sound(parse_policy(koord::fuzz::text_of(data, std::min<std::size_t>(size, 40))));
  Program program(data, size);
  auto made = ZoneSet::from_ids(ids_of(program));
  if (!sound(made)) return 0;
  const ZoneSet& set = made.value();
  const std::size_t zones = set.size();
  (void)set.text(program.byte());
  const std::vector<Column> total = columns_of(program, zones);
  Usage usage{.tracked = program.byte(),
              .used = columns_of(program, zones),
              .reusable = columns_of(program, zones),
              .bound_cpus = {},
              .cpu_ratio = program.flag() ? 1.0 : static_cast<double>(program.amount(300)) / 100};
  for (std::size_t zone = 0; zone < zones; ++zone) usage.bound_cpus.push_back(program.amount(500));
  auto left = available(total, usage);
  if (!sound(left)) return 0;
  for (const Column& column : left.value()) {
    for (const std::int64_t amount : column.amount) FUZZ_CHECK(amount >= 0);
  }
  check_spread(program, left.value(), demands_of(program), zones);
  auto hints = generate_hints(query_of(program, zones, total, left.value()));
  if (sound(hints)) check_merge(program, set, hints.value());
  return 0;
}
