// SPDX-License-Identifier: Apache-2.0
#include "koord/quota.hpp"

#include <random>

#include "check.hpp"

using namespace koord::quota;  // NOLINT(google-build-using-namespace): a test of one header

namespace {

constexpr ResourceId kCpu = 0;

Amounts cpu(std::int64_t amount) {
  Amounts amounts;
  amounts.set(kCpu, amount);
  return amounts;
}

QuotaTree tree_of(std::int64_t total, Options options = {}) {
  QuotaTree tree(options);
  tree.resources().intern("cpu");
  tree.set_total(cpu(total));
  return tree;
}

void add(QuotaTree& tree, std::string_view name, std::string_view parent, std::int64_t min,
         std::int64_t max, std::int64_t request) {
  GroupSpec spec;
  spec.parent = parent;
  spec.min = cpu(min);
  spec.max = cpu(max);
  tree.add(name, spec);
  tree.charge(tree.at(name), Charge::kRequest, cpu(request));
}

std::string numbered(std::uint32_t number) {
  std::string name = "g";
  return name += std::to_string(number);
}

std::int64_t runtime(QuotaTree& tree, std::string_view name) {
  return tree.runtime(tree.at(name)).get(kCpu);
}

std::vector<std::int64_t> fill(std::int64_t total, const std::vector<std::int64_t>& weight,
                               const std::vector<std::int64_t>& request,
                               const std::vector<std::int64_t>& floor,
                               const std::vector<std::int32_t>& priority) {
  const std::vector<std::uint8_t> lends(weight.size(), 1);
  std::vector<std::uint32_t> rank(weight.size());
  for (std::uint32_t i = 0; i < rank.size(); ++i) rank[i] = i;
  std::vector<std::int64_t> runtime(weight.size());
  WaterFill().run(total, {weight, request, floor, lends, priority, rank}, runtime);
  return runtime;
}

}  // namespace

TEST("quota/weights, floors and the largest remainder decide the shares") {
  const auto shares = fill(100, {40, 60, 50, 80}, {5, 20, 40, 70}, {10, 15, 20, 15}, {0, 0, 0, 0});
  CHECK(shares == (std::vector<std::int64_t>{5, 20, 35, 40}));
}

TEST("quota/a higher priority is filled first") {
  const auto shares = fill(250, {200, 200}, {150, 140}, {100, 100}, {50, 100});
  CHECK(shares == (std::vector<std::int64_t>{110, 140}));
}

TEST("quota/weights and pools near 2^63 do not overflow") {
  constexpr std::int64_t kMost = INT64_MAX;
  const auto shares =
      fill(kMost, {kMost, kMost, kMost}, {kMost, kMost, kMost}, {0, 0, 0}, {0, 0, 0});
  CHECK_EQ(shares[0] + shares[1] + shares[2], kMost);
  CHECK_EQ(scaled_min(kMost - 1, kMost, kMost), kMost);
}

TEST("quota/portions are exact on both sides of where doubles stop to tell them") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    const int bits = 1 + round % 60;
    std::vector<std::int64_t> weight;
    Sum sum = 0;
    for (int child = 0; child < 8; ++child) {
      weight.push_back(1 + static_cast<std::int64_t>(random() >> (64 - bits)));
      sum += weight.back();
    }
    const auto pool = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    const auto shares = fill(pool, weight, std::vector<std::int64_t>(8, INT64_MAX),
                             std::vector<std::int64_t>(8), std::vector<std::int32_t>(8));
    std::int64_t left = pool;
    for (std::size_t child = 0; child < 8; ++child) {
      const auto floor = static_cast<std::int64_t>(Sum{weight[child]} * pool / sum);
      CHECK(shares[child] == floor || shares[child] == floor + 1);
      left -= shares[child];
    }
    CHECK_EQ(left, 0);
  }
}

TEST("quota/a request runs up and runtimes run down") {
  QuotaTree tree = tree_of(100);
  add(tree, "p", kRootName, 60, 100, 0);
  add(tree, "a", "p", 20, 100, 0);
  add(tree, "b", "p", 20, 100, 10);
  CHECK_EQ(runtime(tree, "a"), 0);
  tree.charge(tree.at("a"), Charge::kRequest, cpu(40));
  CHECK_EQ(runtime(tree, "a"), 40);
  CHECK_EQ(tree.figure(0, Figure::kRequest).get(kCpu), 50);
  tree.charge(tree.at("a"), Charge::kRequest, cpu(-100));
  CHECK_EQ(tree.figure(tree.at("p"), Figure::kRequest).get(kCpu), 10);
}

TEST("quota/a removed parent leaves its children detached until it is back") {
  QuotaTree tree = tree_of(100);
  add(tree, "a", "p", 0, 100, 40);
  CHECK_EQ(tree.runtime(tree.at("a")).keys(), ResourceMask{0});
  CHECK(tree.admit(tree.at("a"), cpu(1)).verdict == Verdict::kDetached);
  add(tree, "p", kRootName, 0, 30, 0);
  CHECK_EQ(runtime(tree, "a"), 30);
  tree.remove("p");
  CHECK_EQ(tree.figure(0, Figure::kRequest).get(kCpu), 0);
  tree.remove("a");
  CHECK_EQ(tree.groups().size(), std::size_t{3});
  CHECK(tree.find("p") == kNoGroup);
}

TEST("quota/a parent below its child is refused and changes nothing") {
  QuotaTree tree = tree_of(10);
  constexpr std::string_view kBelow = "below";
  add(tree, "above", kRootName, 0, 10, 5);
  add(tree, kBelow, "above", 0, 10, 5);
  GroupSpec spec = tree.spec(tree.at("above"));
  spec.parent = kBelow;
  CHECK_THROWS(tree.update("above", spec), koord::Exception);
  CHECK_EQ(runtime(tree, kBelow), 5);
  CHECK_THROWS(tree.at("nobody"), koord::Exception);
  CHECK_THROWS(tree.runtime(77), koord::Exception);
}

TEST("quota/admission names the group and the resources") {
  QuotaTree tree = tree_of(100, {.check_parents = true});
  add(tree, "p", kRootName, 0, 50, 0);
  add(tree, "a", "p", 10, 100, 50);
  tree.charge(tree.at("a"), Charge::kUsed, cpu(45));
  CHECK(tree.admit(tree.at("a"), cpu(5)).verdict == Verdict::kAdmitted);
  const Admission refused = tree.admit(tree.at("a"), cpu(6));
  CHECK(refused.verdict == Verdict::kOverRuntime);
  CHECK_EQ(refused.exceeded, ResourceMask{1});
  CHECK(tree.admit(tree.at("a"), cpu(5), true).verdict == Verdict::kAdmitted);
  tree.charge(tree.at("a"), Charge::kNonPreemptibleUsed, cpu(6));
  CHECK(tree.admit(tree.at("a"), cpu(5), true).verdict == Verdict::kOverMin);
}

TEST("quota/other trees take their totals from the default tree") {
  Forest forest;
  const ResourceId id = forest.resources().intern("cpu");
  CHECK_EQ(id, kCpu);
  forest.set_cluster_total(cpu(100));
  forest.set_tree_total("42", cpu(30));
  CHECK_EQ(forest.tree("")->total().get(kCpu), 70);
  const auto kept = forest.tree("42");
  forest.remove_tree("42");
  CHECK_EQ(forest.tree("")->total().get(kCpu), 100);
  CHECK_EQ(kept->total().get(kCpu), 30);
}

TEST("quota/names that nothing needs any more are given back") {
  QuotaTree tree = tree_of(100);
  ResourceNames& names = tree.resources();
  add(tree, "a", kRootName, 10, 100, 50);
  for (ResourceId id = names.size(); id < kMaxResources; ++id) {
    GroupSpec spec;
    spec.max.set(names.intern(numbered(id)), 7);
    tree.add(numbered(id), spec);
  }
  CHECK(names.full());
  CHECK_EQ(names.reclaim(), std::size_t{0});
  CHECK_THROWS(names.intern("new"), koord::Exception);
  const ResourceId charged = names.find(numbered(5));
  Amounts amount;
  amount.set(charged, 3);
  tree.charge(tree.at("a"), Charge::kUsed, amount);
  tree.remove(numbered(5));
  tree.remove(numbered(6));
  CHECK_EQ(names.reclaim(), std::size_t{1});
  CHECK_EQ(names.find(numbered(6)), names.size());
  CHECK_EQ(names.find(numbered(5)), charged);
  CHECK_EQ(names.intern("new"), ResourceId{6});
  CHECK_EQ(runtime(tree, "a"), 50);
}

TEST("quota/a tree changed step by step equals one built at once") {
  std::mt19937 random(7);
  const auto draw = [&random](std::uint32_t below) {
    return static_cast<std::uint32_t>(random() % below);
  };
  QuotaTree grown = tree_of(0);
  for (std::uint32_t i = 0; i < 60; ++i) {
    const std::string parent = i < 6 ? std::string(kRootName) : numbered(draw(6));
    add(grown, numbered(i), parent, draw(5), draw(50), draw(40));
  }
  for (int step = 0; step < 300; ++step) {
    const std::string name = numbered(6 + draw(54));
    GroupSpec spec = grown.spec(grown.at(name));
    spec.parent = numbered(draw(6));
    spec.weight = cpu(draw(4));
    if (step % 3 == 0) grown.update(name, spec);
    if (step % 7 == 0) grown.set_total(cpu(draw(600)));
    grown.charge(grown.at(name), Charge::kRequest, cpu(std::int64_t{draw(21)} - 10));
    (void)runtime(grown, name);
  }
  QuotaTree fresh = tree_of(grown.total().get(kCpu));
  for (const GroupId id : grown.groups()) {
    if (id < 3) continue;
    fresh.add(grown.name(id), grown.spec(id));
    fresh.charge(fresh.at(grown.name(id)), Charge::kRequest,
                 grown.figure(id, Figure::kSelfRequest));
  }
  for (const GroupId id : grown.groups()) {
    CHECK_EQ(grown.runtime(id).get(kCpu), runtime(fresh, grown.name(id)));
  }
}
