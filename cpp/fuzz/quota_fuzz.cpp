// SPDX-License-Identifier: Apache-2.0
// A quota tree that is changed as a program says, beside one that is made anew of the same groups.
#include "fuzz.hpp"
#include "koord/quota.hpp"

using namespace koord::quota;  // NOLINT(google-build-using-namespace): an entry of one tree
using koord::fuzz::accepted;
using koord::fuzz::Program;

namespace {

constexpr ResourceId kResources = 2;
constexpr std::size_t kNames = 10;

std::string name_of(Program& program) {
  const std::size_t number = program.below(kNames + 3);
  if (number == kNames) return std::string(kRootName);
  if (number == kNames + 1) return std::string(kDefaultName);
  return number > kNames ? std::string(kSystemName) : "g" + std::to_string(number);
}

Amounts amounts_of(Program& program, bool any_sign) {
  Amounts amounts;
  const std::int64_t most = program.below(8) == 0 ? koord::fuzz::kInt64Max : 1000;
  const std::uint8_t which = program.byte();
  for (ResourceId id = 0; id < kResources; ++id) {
    if ((which >> id & 1U) != 0) continue;
    amounts.set(id, any_sign ? program.signed_amount(most) : program.amount(most));
  }
  return amounts;
}

GroupSpec spec_of(Program& program) {
  GroupSpec spec;
  if (program.flag()) spec.parent = name_of(program);
  spec.min = amounts_of(program, program.below(16) == 0);
  spec.max = amounts_of(program, program.below(16) == 0);
  if (program.flag()) spec.weight = amounts_of(program, program.below(16) == 0);
  const std::uint8_t flags = program.byte();
  spec.is_parent = (flags & 1U) != 0;
  spec.allow_lent = (flags & 2U) == 0;
  spec.scale_min = (flags & 4U) == 0;
  spec.priority = program.number(-1, 2);
  return spec;
}

// What was charged to a group, said to another tree at once.
void charge_as(const QuotaTree& from, GroupId source, QuotaTree& to, GroupId target) {
  constexpr std::pair<Charge, Figure> kOwn[] = {
      {Charge::kRequest, Figure::kSelfRequest},
      {Charge::kUsed, Figure::kSelfUsed},
      {Charge::kNonPreemptibleRequest, Figure::kSelfNonPreemptibleRequest},
      {Charge::kNonPreemptibleUsed, Figure::kSelfNonPreemptibleUsed},
  };
  for (const auto& [charge, figure] : kOwn) {
    to.charge(target, charge, from.figure(source, figure));
  }
}

void check_group(QuotaTree& tree, GroupId id) {
  for (int figure = 0; figure <= static_cast<int>(Figure::kGuaranteed); ++figure) {
    const Amounts amounts = tree.figure(id, static_cast<Figure>(figure));
    for (ResourceId resource = 0; resource < kResources; ++resource) {
      FUZZ_CHECK(amounts.get(resource) >= 0);
    }
  }
  const Amounts runtime = tree.runtime(id);
  const Amounts least = tree.scaled_min(id);
  for (ResourceId resource = 0; resource < kResources; ++resource) {
    FUZZ_CHECK(runtime.get(resource) >= 0);
    FUZZ_CHECK(least.get(resource) >= 0);
    accepted([&] {
      const Explanation level = tree.explain(id, resource);
      for (const std::int64_t amount : level.runtime) FUZZ_CHECK(amount >= 0);
      FUZZ_CHECK(level.runtime.size() == level.children.size());
    });
  }
}

void check_tree(QuotaTree& tree) {
  QuotaTree anew(tree.options());
  anew.resources().intern("cpu");
  anew.resources().intern("memory");
  anew.set_total(tree.total());
  std::vector<GroupId> ids;
  for (const GroupId id : tree.groups()) {
    const std::string& name = tree.name(id);
    if (name == kRootName) continue;
    if (anew.find(name) == kNoGroup) {
      anew.add(name, tree.spec(id));
    } else {
      anew.update(name, tree.spec(id));  // a built-in group
    }
    charge_as(tree, id, anew, anew.at(name));
    ids.push_back(id);
  }
  for (const GroupId id : ids) {
    check_group(tree, id);
    const GroupId same = anew.at(tree.name(id));
    FUZZ_CHECK(tree.runtime(id) == anew.runtime(same));
    FUZZ_CHECK(tree.scaled_min(id) == anew.scaled_min(same));
    FUZZ_CHECK(tree.figure(id, Figure::kRequest) == anew.figure(same, Figure::kRequest));
    FUZZ_CHECK(tree.figure(id, Figure::kUsed) == anew.figure(same, Figure::kUsed));
  }
}

void step(Program& program, QuotaTree& tree) {
  const std::string name = name_of(program);
  switch (program.below(8)) {
    case 0:
    case 1:
      accepted([&] { tree.add(name, spec_of(program)); });
      break;
    case 2:
      accepted([&] { tree.update(name, spec_of(program)); });
      break;
    case 3:
      accepted([&] { tree.remove(name); });
      break;
    case 4:
    case 5: {
      const auto kind = static_cast<Charge>(program.below(kCharges));
      accepted([&] { tree.charge(tree.at(name), kind, amounts_of(program, true)); });
      break;
    }
    case 6:
      accepted([&] { tree.set_total(amounts_of(program, program.below(16) == 0)); });
      break;
    default:
      accepted([&] {
        const GroupId id = tree.at(name);
        (void)tree.runtime(id);
        (void)tree.admit(id, amounts_of(program, false), program.flag());
      });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program program(data, size);
  Options options;
  const std::uint8_t flags = program.byte();
  options.builtin_groups = (flags & 1U) == 0;
  options.runtime_quota = (flags & 2U) == 0;
  options.check_parents = (flags & 4U) != 0;
  options.guarantee_usage = (flags & 8U) != 0;
  QuotaTree tree(options);
  tree.resources().intern("cpu");
  tree.resources().intern("memory");
  for (int steps = 0; steps < 40 && !program.ended(); ++steps) step(program, tree);
  check_tree(tree);
  return 0;
}
