// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "koord/cgroup.hpp"
#include "text.hpp"

namespace koord::cgroup {
namespace {

// One write(2): kernel files take a value whole or not at all. Truncation is for plain files.
std::optional<Error> write_file(const Root& root, const std::string& path, std::string_view text) {
  auto file = root.open_beneath(path, O_WRONLY | O_TRUNC);
  if (!file) return file.error();
  const ssize_t written = ::write(file.value().get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return std::nullopt;
  return system_error("write", path, written < 0 ? errno : EIO);
}

bool is_gone(const Error& error) {
  return error.sys_errno == ENOENT || error.sys_errno == ENODEV || error.sys_errno == ENOTDIR;
}

WriteResult failure(const Error& error) {
  if (is_gone(error)) return {Outcome::kMissing, error.sys_errno, error.message()};
  // Such as io.weight of a device that no cost model was ever set for.
  if (error.sys_errno == EOPNOTSUPP) {
    return {Outcome::kUnsupported, error.sys_errno, error.message()};
  }
  const int number = error.code == Errc::kSystem ? error.sys_errno : EINVAL;
  return {Outcome::kFailed, number, error.message()};
}

// cpu.max takes a lone number as the quota, so a period goes with the quota that stands there.
std::string text_for_file(const ResourceSpec& resource, Version version, std::string_view text,
                          std::string_view current) {
  if (text.empty()) return "\n";  // writing nothing would be no write at all
  if (resource.kind != Kind::kPeriod || version == Version::kV1) return std::string(text);
  return std::string(text::take_field(current)) + " " + std::string(text);
}

// Lines of blkio files are per device, each with a value of its own; a thread may move away again.
std::string field_of(const ResourceSpec& resource, std::string_view value) {
  std::string field(resource.key);
  const bool by_device = resource.kind == Kind::kBlkioDevice || resource.kind == Kind::kBlkioQos ||
                         resource.kind == Kind::kBlkioModel;
  if (by_device) field.append(" ").append(text::take_field(value));
  return field;
}

}  // namespace

struct Writer::State {
  struct Known {
    std::string text;
    double checked_seconds;
  };
  // A request on its way: what would be written where.
  struct Job {
    const ResourceSpec* resource;
    std::string path;
    std::string key;
    std::string text;
    WriteResult result{};
    bool done = false;
    bool wrote = false;
  };

  std::shared_ptr<const Hierarchy> hierarchy;
  WriterOptions options;
  std::mutex lock;
  std::unordered_map<std::string, Known> known{};
  std::unordered_map<const ResourceSpec*, bool> in_kubepods{};

  Job prepare(const WriteRequest& request, double now);
  bool is_known(const Job& job, double now) const;
  bool supported(const ResourceSpec& resource, std::string_view directory);
  void remember(const Job& job, double now);
  void expire(double now);
  std::optional<Error> put(Job& job, std::string_view text, std::string_view current);
  void update(Job& job, double now);
  void loosen(Job& job, double now);
  static void finish(Job& job, WriteResult result);
};

void Writer::State::finish(Job& job, WriteResult result) {
  job.done = true;
  job.result = std::move(result);
  if (job.result.outcome == Outcome::kUnchanged && job.wrote)
    job.result.outcome = Outcome::kWritten;
}

bool Writer::State::is_known(const Job& job, double now) const {
  const auto found = known.find(job.key);
  if (found == known.end()) return false;
  const auto& [text, checked_seconds] = found->second;
  const bool fresh = now - checked_seconds <= options.force_after_seconds;
  return fresh &&
         (text == job.text || says_same(*job.resource, hierarchy->version(), job.text, text));
}

void Writer::State::remember(const Job& job, double now) {
  if (job.resource->kind != Kind::kIds) known.insert_or_assign(job.key, Known{job.text, now});
}

void Writer::State::expire(double now) {
  std::erase_if(known, [&](const auto& entry) {
    return now - entry.second.checked_seconds > options.forget_after_seconds;
  });
}

bool Writer::State::supported(const ResourceSpec& resource, std::string_view directory) {
  const FileSpec& file = resource.in(hierarchy->version());
  const Root& root = hierarchy->root();
  switch (file.support) {
    case Support::kNotRegistered:
      return false;
    case Support::kAlways:
      return true;
    case Support::kFile:
      return root.exists(hierarchy->path_of(file, directory));
    case Support::kRoot:
      return root.exists(hierarchy->path_of(file, ""));
    case Support::kKubepods: {
      bool& yes = in_kubepods[&resource];
      if (!yes) yes = root.exists(hierarchy->path_of(file, hierarchy->kubepods()));
      return yes;
    }
  }
  return false;
}

Writer::State::Job Writer::State::prepare(const WriteRequest& request, double now) {
  const ResourceSpec& resource = *request.resource;
  const FileSpec& file = resource.in(hierarchy->version());
  Job job{&resource, hierarchy->path_of(file, request.directory), {}, {}};
  job.key = job.path + '\0' + field_of(resource, request.value);
  auto text = file_text(resource, hierarchy->version(), request.value);
  if (text) job.text = text.value();
  if (text && is_known(job, now)) {
    finish(job, {});
  } else if (!supported(resource, request.directory)) {
    finish(job, {Outcome::kUnsupported, EOPNOTSUPP, std::string(resource.key) + ": not supported"});
  } else if (!text) {
    finish(job, failure(text.error()));
  }
  return job;
}

std::optional<Error> Writer::State::put(Job& job, std::string_view text, std::string_view current) {
  const auto whole = text_for_file(*job.resource, hierarchy->version(), text, current);
  auto error = write_file(hierarchy->root(), job.path, whole);
  job.wrote = job.wrote || !error;
  return error;
}

void Writer::State::update(Job& job, double now) {
  auto current = hierarchy->root().read(job.path);
  if (!current) return finish(job, failure(current.error()));
  if (!says_same(*job.resource, hierarchy->version(), job.text, current.value())) {
    if (auto error = put(job, job.text, current.value())) return finish(job, failure(*error));
  }
  remember(job, now);
  finish(job, {});
}

void Writer::State::loosen(Job& job, double now) {
  if (job.resource->merge == Merge::kNone) return update(job, now);
  auto current = hierarchy->root().read(job.path);
  if (!current) return finish(job, failure(current.error()));
  auto step = loosened(*job.resource, hierarchy->version(), job.text, current.value());
  // What cannot be understood or loosened is left to the second pass, which writes the value
  // itself.
  if (!step || !step.value() || put(job, *step.value(), current.value())) return;
  if (says_same(*job.resource, hierarchy->version(), job.text, *step.value())) {
    remember(job, now);
    finish(job, {});
  }
}

Writer::Writer(std::shared_ptr<const Hierarchy> hierarchy, WriterOptions options)
    : state_(new State{std::move(hierarchy), options, {}}) {}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

std::vector<WriteResult> Writer::write(std::span<const WriteRequest> requests, double now_seconds) {
  const std::scoped_lock held(state_->lock);
  state_->expire(now_seconds);
  std::vector<WriteResult> results;
  for (const auto& request : requests) {
    auto job = state_->prepare(request, now_seconds);
    if (!job.done) state_->update(job, now_seconds);
    results.push_back(std::move(job.result));
  }
  return results;
}

std::vector<std::vector<WriteResult>> Writer::write_leveled(
    std::span<const std::vector<WriteRequest>> levels, double now_seconds) {
  const std::scoped_lock held(state_->lock);
  state_->expire(now_seconds);
  std::vector<std::vector<State::Job>> jobs(levels.size());
  for (std::size_t level = 0; level < levels.size(); ++level) {
    for (const auto& request : levels[level]) {
      jobs[level].push_back(state_->prepare(request, now_seconds));
      if (!jobs[level].back().done) state_->loosen(jobs[level].back(), now_seconds);
    }
  }
  std::vector<std::vector<WriteResult>> results(levels.size());
  for (std::size_t level = levels.size(); level-- > 0;) {
    // Bursts last: they may grow only once their quota has.
    for (const bool bursts : {false, true}) {
      for (auto& job : jobs[level]) {
        const bool is_burst = job.resource->merge == Merge::kSmaller;
        if (!job.done && is_burst == bursts) state_->update(job, now_seconds);
      }
    }
    for (auto& job : jobs[level]) results[level].push_back(std::move(job.result));
  }
  return results;
}

void Writer::forget(std::string_view directory) {
  const std::scoped_lock held(state_->lock);
  const Hierarchy& hierarchy = *state_->hierarchy;
  std::vector<std::string> prefixes;
  for (const auto& resource : catalogue()) {
    prefixes.push_back(hierarchy.directory_of(resource.in(hierarchy.version()), directory) + "/");
  }
  std::erase_if(state_->known, [&](const auto& entry) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const auto& prefix) { return entry.first.starts_with(prefix); });
  });
}

Result<AddedIds> add_ids(const Root& root, const std::string& path, std::vector<std::int32_t> ids) {
  auto file = root.open_beneath(path, O_WRONLY | O_APPEND);
  if (!file) return file.error();
  std::sort(ids.begin(), ids.end());
  AddedIds count;
  for (const auto id : ids) {
    const std::string text = std::to_string(id) + "\n";
    if (::write(file.value().get(), text.data(), text.size()) >= 0) {
      ++count.added;
    } else if (errno == ESRCH) {
      ++count.gone;
    } else if (++count.failed == 1) {
      count.first_errno = errno;
    }
  }
  return count;
}

}  // namespace koord::cgroup
