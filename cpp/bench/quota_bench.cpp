// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"
#include "koord/quota.hpp"

namespace {

using namespace koord::quota;  // NOLINT(google-build-using-namespace): a bench of one header

constexpr ResourceId kResources = 4;

Amounts all(std::int64_t amount) {
  Amounts amounts;
  for (ResourceId k = 0; k < kResources; ++k) amounts.set(k, amount);
  return amounts;
}

void add(QuotaTree& tree, const std::string& name, std::string_view parent, std::int64_t scale,
         std::int64_t request) {
  GroupSpec spec;
  spec.parent = parent;
  spec.min = all(40 * scale);
  spec.max = all(200 * scale);
  spec.is_parent = scale > 1;
  tree.add(name, spec);
  if (request > 0) tree.charge(tree.at(name), Charge::kRequest, all(request));
}

std::string numbered(std::string prefix, int number) { return prefix += std::to_string(number); }

QuotaTree empty_tree(std::int64_t total) {
  QuotaTree tree;
  for (const char* name : {"cpu", "memory", "gpu", "pods"}) tree.resources().intern(name);
  tree.set_total(all(total));
  return tree;
}

// 21 groups with 21 children of 22 each: 10,164 groups, each level short of what it asks for.
QuotaTree three_levels() {
  QuotaTree tree = empty_tree(21 * 21 * 22 * 80);
  for (int i = 0; i < 21; ++i) {
    const std::string top = numbered("t", i);
    add(tree, top, kRootName, 21 * 22, 0);
    for (int j = 0; j < 21; ++j) {
      const std::string middle = numbered(top + "/", j);
      add(tree, middle, top, 22, 0);
      for (int k = 0; k < 22; ++k) {
        add(tree, numbered(middle + "/", k), middle, 1, 50 + (i * 7 + j * 5 + k * 3) % 99);
      }
    }
  }
  return tree;
}

QuotaTree flat(std::int64_t total_each) {
  QuotaTree tree = empty_tree(10'000 * total_each);
  for (int i = 0; i < 10'000; ++i) add(tree, numbered("g", i), kRootName, 1, 50 + i % 99);
  return tree;
}

// One leaf asks for one unit more or less of everything, and reads what it may use.
std::function<void()> change_and_read(QuotaTree (*make)(), const char* name) {
  return [make, name, tree = std::shared_ptr<QuotaTree>(), step = std::int64_t{1}]() mutable {
    if (!tree) tree = std::make_shared<QuotaTree>(make());
    const GroupId leaf = tree->at(name);
    tree->charge(leaf, Charge::kRequest, all(step = -step));
    koord::bench::keep(tree->runtime(leaf));
  };
}

// A new total changes every level.
void read_everything() {
  static QuotaTree tree = three_levels();
  static std::int64_t total = 21 * 21 * 22 * 80;
  tree.set_total(all(total ^= 1));
  for (const GroupId id : tree.groups()) koord::bench::keep(tree.runtime(id));
}

const koord::bench::Register kThree(
    "quota/one leaf's change and runtime, 10,164 groups in 3 levels",
    change_and_read(&three_levels, "t7/7/7"));
const koord::bench::Register kFlat(
    "quota/one leaf's change and runtime, 10,000 siblings, contended",
    change_and_read([] { return flat(80); }, "g7"));
const koord::bench::Register kIdle("quota/one leaf's change and runtime, 10,000 siblings, enough",
                                   change_and_read([] { return flat(400); }, "g7"));
const koord::bench::Register kAll("quota/every runtime after a new total, 10,164 groups",
                                  &read_everything);
const koord::bench::Register kBuild("quota/build 10,164 groups",
                                    [] { koord::bench::keep(three_levels()); });

}  // namespace
