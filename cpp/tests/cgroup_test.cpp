// SPDX-License-Identifier: Apache-2.0
#include "koord/cgroup.hpp"

#include <array>
#include <cerrno>

#include "check.hpp"
#include "scratch.hpp"

using koord::cgroup::Hierarchy;
using koord::cgroup::Outcome;
using koord::cgroup::Reader;
using koord::cgroup::ResourceSpec;
using koord::cgroup::Version;
using koord::cgroup::Writer;
using koord::cgroup::WriteRequest;
using koord::test::Scratch;

namespace {

const ResourceSpec* spec(std::string_view key) { return koord::cgroup::find_resource(key).value(); }

std::shared_ptr<const Hierarchy> tree_at(const Scratch& scratch, Version version) {
  return Hierarchy::open(scratch.path(), version).value();
}

}  // namespace

TEST("cgroup/a batch reads rows and columns and reports each failure") {
  const Scratch scratch;
  scratch.put("pod/cpu.weight", "39\n");
  scratch.put("pod/cpu.stat", "nr_periods 1\nnr_throttled 2\nthrottled_usec 3\n");
  Reader reader(tree_at(scratch, Version::kV2), 8);
  const std::vector<std::string> directories = {"pod", "gone"};
  const std::array resources = {spec("cpu.shares"), spec("cpu.stat")};
  for (int round = 0; round < 2; ++round) {
    const auto tables = reader.read(directories, resources);
    CHECK_EQ(tables[0].integers[0], 998);
    CHECK_EQ(tables[1].integers[2], 3000);
    CHECK_EQ(tables[1].error[0], 0);
    CHECK_EQ(tables[1].error[1], ENOENT);
    CHECK_EQ(reader.kept(), 2U);
  }
}

TEST("cgroup/a union in the first pass is narrowed in the second") {
  const Scratch scratch;
  scratch.put("cpuset/p/cpuset.cpus", "0-1\n");
  scratch.put("cpuset/p/c/cpuset.cpus", "0\n");
  Writer writer(tree_at(scratch, Version::kV1), {});
  const auto* cpus = spec("cpuset.cpus");
  const std::vector<std::vector<WriteRequest>> levels = {{{cpus, "p", "2-3"}},
                                                         {{cpus, "p/c", "2"}}};
  const auto results = writer.write_leveled(levels, 0);
  CHECK(results[0][0].outcome == Outcome::kWritten);
  CHECK_EQ(scratch.get("cpuset/p/cpuset.cpus"), std::string("2-3"));
  CHECK_EQ(scratch.get("cpuset/p/c/cpuset.cpus"), std::string("2"));
  CHECK(writer.write_leveled(levels, 1)[1][0].outcome == Outcome::kUnchanged);
}

TEST("cgroup/no limit is written as max on v2 in either pass") {
  const Scratch scratch;
  scratch.put("p/cpu.max", "200000 100000\n");
  Writer writer(tree_at(scratch, Version::kV2), {});
  const auto* quota = spec("cpu.cfs_quota_us");
  const std::vector<std::vector<WriteRequest>> levels = {{{quota, "p", "-1"}}};
  CHECK(writer.write_leveled(levels, 0)[0][0].outcome == Outcome::kWritten);
  CHECK_EQ(scratch.get("p/cpu.max"), std::string("max"));
}

TEST("cgroup/a limit of a device is one name of its line in io.max on v2") {
  const Scratch scratch;
  scratch.put("p/io.max", "8:0 rbps=max wbps=7 riops=max wiops=max\n");
  Writer writer(tree_at(scratch, Version::kV2), {});
  const std::vector<WriteRequest> requests = {
      {spec("blkio.throttle.write_bps_device"), "p", "8:0 7"},
      {spec("blkio.throttle.read_iops_device"), "p", "8:16 0"},
      {spec("blkio.throttle.read_bps_device"), "p", "8:0 5"}};
  const auto results = writer.write(requests, 0);
  CHECK(results[0].outcome == Outcome::kUnchanged);
  CHECK(results[1].outcome == Outcome::kUnchanged);
  CHECK(results[2].outcome == Outcome::kWritten);
  // A kernel keeps the other names of the line.
  CHECK_EQ(scratch.get("p/io.max"), std::string("8:0 rbps=5"));
}

TEST("cgroup/bad requests end as outcomes") {
  const Scratch scratch;
  scratch.put("p/cpu.max", "max 100000\n");
  Writer writer(tree_at(scratch, Version::kV2), {});
  const std::vector<WriteRequest> requests = {{spec("cpu.cfs_quota_us"), "p", "ten"},
                                              {spec("cpu.cfs_quota_us"), "../p", "10"},
                                              {spec("cpu.cfs_quota_us"), "q", "10"},
                                              {spec("blkio.cost.qos"), "p", "1:2 enable=0"}};
  const auto results = writer.write(requests, 0);
  CHECK(results[0].outcome == Outcome::kFailed);
  CHECK(results[1].outcome == Outcome::kFailed);
  CHECK(results[2].outcome == Outcome::kMissing);
  CHECK(results[3].outcome == Outcome::kUnsupported);
}
