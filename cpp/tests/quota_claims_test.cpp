// SPDX-License-Identifier: Apache-2.0
// Many siblings, changed one by one, against sharing out in full: the tree keeps their claims in
// order after a few changes.
#include <numeric>
#include <random>

#include "check.hpp"
#include "koord/quota.hpp"

using namespace koord::quota;  // NOLINT(google-build-using-namespace): a test of one header

namespace {

constexpr std::int64_t kMax = 1'000'000;

Amounts cpu(std::int64_t amount) {
  Amounts amounts;
  amounts.set(0, amount);
  return amounts;
}

std::string numbered(std::uint64_t number) {
  std::string name = "g";
  return name += std::to_string(number);
}

/// A level of a tree, and the same as plain columns.
class Wide {
 public:
  Wide(std::uint64_t seed, std::uint64_t weights, std::uint64_t amounts)
      : random_(seed), weights_(weights), amounts_(amounts) {
    tree_.resources().intern("cpu");
    const std::size_t count = 64 + below(100);
    while (names_.size() < count) add();
  }

  void change() {
    const std::size_t at = below(names_.size());
    const std::uint64_t what = below(100);
    if (what == 0) {
      respec(at);
    } else if (what == 1) {
      remove(at);
      add();
    } else {
      const auto more = static_cast<std::int64_t>(below(amounts_));
      const std::int64_t asked =
          below(2) == 0 ? more : std::max<std::int64_t>(0, asked_[at] - more);
      tree_.charge(tree_.at(names_[at]), Charge::kRequest, cpu(asked - asked_[at]));
      asked_[at] = asked;
    }
    const auto spare = static_cast<std::int64_t>(below(names_.size() * amounts_ / 2 + 1));
    if (total_ == 0 || below(4) == 0) total_ = spare;
    total_ = std::max(total_, std::accumulate(min_.begin(), min_.end(), std::int64_t{0}));
    tree_.set_total(cpu(total_));
  }

  [[nodiscard]] bool agrees() {
    const std::vector<std::int64_t> expected = in_full();
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (tree_.runtime(tree_.at(names_[i])).get(0) != expected[i]) return false;
    }
    return true;
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  void add() {
    names_.push_back(numbered(below(1'000'000'000)));
    weight_.push_back(0), min_.push_back(0), asked_.push_back(0);
    lends_.push_back(0), priority_.push_back(0);
    tree_.add(names_.back(), draw(names_.size() - 1));
  }

  GroupSpec draw(std::size_t at) {
    weight_[at] = 1 + static_cast<std::int64_t>(below(weights_));
    min_[at] = static_cast<std::int64_t>(below(3) == 0 ? below(amounts_) : 0);
    lends_[at] = below(8) == 0 ? 0 : 1;
    priority_[at] = below(8) == 0 ? 1 : 0;
    GroupSpec spec;
    spec.min = cpu(min_[at]);
    spec.max = cpu(kMax);
    spec.weight = cpu(weight_[at]);
    spec.allow_lent = lends_[at] != 0;
    spec.priority = priority_[at];
    return spec;
  }

  void respec(std::size_t at) { tree_.update(names_[at], draw(at)); }

  void remove(std::size_t at) {
    tree_.remove(names_[at]);
    const auto drop = [at](auto& column) {
      column.erase(column.begin() + static_cast<std::ptrdiff_t>(at));
    };
    drop(names_), drop(weight_), drop(min_), drop(asked_), drop(lends_), drop(priority_);
  }

  [[nodiscard]] std::vector<std::int64_t> in_full() const {
    const std::size_t count = names_.size();
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return names_[a] < names_[b]; });
    std::vector<std::uint32_t> rank(count);
    for (std::uint32_t i = 0; i < count; ++i) rank[order[i]] = i;
    std::vector<std::int64_t> request(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t asked = lends_[i] != 0 ? asked_[i] : std::max(asked_[i], min_[i]);
      request[i] = std::min(asked, kMax);
    }
    std::vector<std::int64_t> runtime(count);
    WaterFill().run(total_, {weight_, request, min_, lends_, priority_, rank}, runtime);
    return runtime;
  }

  std::mt19937_64 random_;
  std::uint64_t weights_, amounts_;
  QuotaTree tree_;
  std::int64_t total_ = 0;
  std::vector<std::string> names_;
  std::vector<std::int64_t> weight_, min_, asked_;
  std::vector<std::uint8_t> lends_;
  std::vector<std::int32_t> priority_;
};

// Few weights, about as many as are put in order, and more; amounts with many ties and with few.
TEST("quota_claims/many siblings changed one by one, each shared out in full") {
  for (const std::uint64_t weights : {1U, 3U, 15U, 17U, 1000U}) {
    for (const std::uint64_t amounts : {5U, 40U, 900'000U}) {
      Wide wide(weights * 7 + amounts, weights, amounts);
      for (int step = 0; step < 300; ++step) {
        wide.change();
        const bool same = wide.agrees();
        CHECK(same);
        if (!same) {
          std::cerr << "  weights " << weights << ", amounts " << amounts << ", step " << step
                    << "\n";
          return;
        }
      }
    }
  }
}

// Needs that double from child to child take a round each, more than are worth it.
TEST("quota_claims/needs that take very many rounds") {
  QuotaTree tree;
  tree.resources().intern("cpu");
  std::vector<std::int64_t> weight, request;
  for (std::uint32_t i = 0; i < 100; ++i) {
    GroupSpec spec;
    spec.max = cpu(std::int64_t{1} << 50);
    // The wider the weight the larger the need, so that few are met in a round.
    spec.weight = cpu(1 + i % 2);
    request.push_back(std::int64_t{1} << (i / 2 < 50 ? i / 2 : 49));
    weight.push_back(1 + i % 2);
    tree.add(numbered(1000 + i), spec);
    tree.charge(tree.at(numbered(1000 + i)), Charge::kRequest, cpu(request.back()));
  }
  std::vector<std::uint32_t> rank(100);
  std::iota(rank.begin(), rank.end(), 0U);
  const std::vector<std::uint8_t> lends(100, 1);
  const std::vector<std::int64_t> floor(100);
  const std::vector<std::int32_t> priority(100);
  std::vector<std::int64_t> expected(100);
  for (std::int64_t total = 1000; total < std::int64_t{1} << 52; total *= 3) {
    tree.set_total(cpu(total));
    WaterFill().run(total, {weight, request, floor, lends, priority, rank}, expected);
    for (std::uint32_t i = 0; i < 100; ++i) {
      CHECK_EQ(tree.runtime(tree.at(numbered(1000 + i))).get(0), expected[i]);
    }
  }
}

}  // namespace
