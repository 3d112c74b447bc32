// SPDX-License-Identifier: Apache-2.0
#include "koord/topology_pick.hpp"

#include <random>

#include "check.hpp"
#include "koord/topology_state.hpp"
#include "topology_machines.hpp"

using namespace koord;  // NOLINT(google-build-using-namespace)
using koord::test::machine;

namespace {

struct Example {
  std::array<int, 4> shape;
  CpuSet taken;
  PickRequest request;
  std::string cpus;
  std::string pass;
};

constexpr auto kFull = BindPolicy::kFullPCPUs;
constexpr auto kMost = NumaStrategy::kMostAllocated;

}  // namespace

TEST("topology_pick/worked examples") {
  const CpuSet preferred{9, 11};
  const std::vector<Example> examples = {
      {{2, 2, 4, 2},
       CpuSet::range(0, 3),
       {.count = 4, .bind = kFull, .strategy = kMost},
       "4-7",
       "full-cores-in-node"},
      {{2, 2, 4, 2},
       CpuSet::range(0, 3),
       {.count = 4, .bind = kFull},
       "16-19",
       "full-cores-in-node"},
      {{2, 2, 4, 2},
       CpuSet::range(0, 3),
       {.count = 5, .bind = BindPolicy::kSpread, .strategy = kMost},
       "8-10,12,14",
       "cpus-in-node"},
      {{2, 1, 4, 2},
       {0, 2},
       {.count = 3, .bind = kFull, .strategy = kMost, .preferred = &preferred},
       "4,9,11",
       "preferred:fallback+full-cores-in-node"},
      {{2, 1, 4, 2},
       {0, 1, 8, 9},
       {.count = 7, .bind = kFull, .strategy = kMost},
       "2-7,10",
       "full-cores-across-sockets+fallback"},
      {{4, 1, 4, 2},
       {},
       {.count = 11, .bind = kFull},
       "0-10",
       "full-cores-across-sockets+fallback"},
  };
  for (const Example& example : examples) {
    CpuState state(machine(example.shape[0], example.shape[1], example.shape[2], example.shape[3]));
    state.add("pod", example.taken);
    const Pick pick = state.pick(example.request);
    CHECK_EQ(pick.cpus.format(), example.cpus);
    CHECK_EQ(pick.pass_name(), example.pass);
  }
}

TEST("topology_pick/always as many as asked for, of those available, or none and a reason") {
  std::mt19937 random(1);
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  for (int round = 0; round < 300; ++round) {
    CpuState state(machine(1 + below(4), 1 + below(3), 1 + below(5), 1 + below(3)));
    const int cpus = state.topology().online().count();
    for (int pod = 0; pod < 3; ++pod) {
      CpuSet some;
      for (int i = 0; i < cpus / 4; ++i) some.insert(below(static_cast<unsigned>(cpus)));
      state.add(std::to_string(pod), some, static_cast<ExclusivePolicy>(below(3)));
    }
    const PickRequest request{.count = below(static_cast<unsigned>(cpus + 2)),
                              .bind = static_cast<BindPolicy>(below(3)),
                              .required = below(2) == 1,
                              .exclusive = static_cast<ExclusivePolicy>(below(3)),
                              .strategy = static_cast<NumaStrategy>(below(3)),
                              .max_ref_count = below(4)};
    const CpuSet available = state.available(request);
    const Pick pick = state.pick(request);
    CHECK_EQ(pick.cpus.count(), pick.ok() ? request.count : 0);
    CHECK(pick.cpus.is_subset_of(available));
    CHECK(pick.ok() || request.required || request.count > available.count());
    CHECK_EQ(reason(pick.status, request.bind).empty(), pick.ok());
  }
}

TEST("topology_pick/a question leaves the state as it was") {
  CpuState state(machine(1, 2, 4, 2));
  state.add("reservation", {0, 1});
  state.add("owner", {1});
  const CpuSet both{0, 1};
  const std::vector<CpuSet> sets(2, both);
  CHECK_EQ(state.pick({.count = 2, .preferred = &both, .preemptible = sets}).cpus.format(),
           std::string("0-1"));
  CHECK_EQ(state.ref_count(0), 1);
  CHECK_EQ(state.ref_count(1), 2);
  CHECK_EQ(state.allocated().format(), std::string("0-1"));
}

TEST("topology_pick/names go both ways") {
  for (int i = 0; i < 3; ++i) {
    CHECK(parse_bind_policy(name(static_cast<BindPolicy>(i))).value() ==
          static_cast<BindPolicy>(i));
    CHECK(parse_exclusive_policy(name(static_cast<ExclusivePolicy>(i))).value() ==
          static_cast<ExclusivePolicy>(i));
    CHECK(parse_numa_strategy(name(static_cast<NumaStrategy>(i))).value() ==
          static_cast<NumaStrategy>(i));
  }
  CHECK(parse_exclusive_policy("").value() == ExclusivePolicy::kNone);
  CHECK(!parse_bind_policy("full").ok());
  for (int i = 0; i < kPassCount; ++i) {
    CHECK(!name(static_cast<Pass>(i)).empty());
    CHECK(!describe(static_cast<Pass>(i)).empty());
  }
}
