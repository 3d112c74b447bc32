// SPDX-License-Identifier: Apache-2.0
#include "koord/root.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "../src/beneath.hpp"
#include "check.hpp"
#include "scratch.hpp"

using koord::Descriptor;
using koord::Root;
using koord::test::Scratch;

TEST("root/what leads out is refused") {
  const Scratch scratch;
  scratch.put("root/a/b", "text");
  scratch.put("secret", "no");
  auto root = Root::open(scratch.path() / "root").value();
  CHECK_EQ(root.read("a/b").value(), std::string("text"));
  for (const std::string bad : {"", "/etc/passwd", "..", "../secret", "a/../../secret", "a//b"}) {
    CHECK(root.read(bad).error().code == koord::Errc::kInvalid);
  }
  CHECK(root.read(std::string("a/b\0c", 5)).error().code == koord::Errc::kInvalid);
  CHECK_EQ(root.read("a/...").error().sys_errno, ENOENT);
  CHECK(!Root::open(scratch.path() / "gone").ok());
}

TEST("root/both ways of opening refuse every symbolic link") {
  const Scratch scratch;
  scratch.put("a/b", "text");
  std::filesystem::create_symlink("a", scratch.path() / "inner");
  std::filesystem::create_symlink("/etc", scratch.path() / "outer");
  std::filesystem::create_symlink("b", scratch.path() / "a/last");
  const Descriptor held(::open(scratch.path().c_str(), O_PATH | O_DIRECTORY));
  for (const std::string path : {"inner/b", "outer/passwd", "a/last", "inner"}) {
    for (const int flags : {O_RDONLY, O_WRONLY, O_PATH, O_PATH | O_DIRECTORY}) {
      CHECK_EQ(koord::open_by_walking(held.get(), path, flags), -ELOOP);
      const int direct = koord::open_with_openat2(held.get(), path.c_str(), flags);
      CHECK(direct == -ELOOP || direct == -ENOSYS);
    }
  }
  for (const std::string path : {"a/b", "./a/b", "a/./b"}) {
    const Descriptor file(koord::open_by_walking(held.get(), path, O_RDONLY));
    CHECK(file.open());
  }
  CHECK_EQ(koord::open_by_walking(held.get(), "a/b/c", O_RDONLY), -ENOTDIR);
  CHECK_EQ(koord::open_by_walking(held.get(), "a/c", O_RDONLY), -ENOENT);
}

TEST("root/a pipe in a file's place does not block") {
  const Scratch scratch;
  CHECK_EQ(::mkfifo((scratch.path() / "pipe").c_str(), 0600), 0);
  auto root = Root::open(scratch.path()).value();
  CHECK(!root.read("pipe").ok());
  CHECK_EQ(root.open_beneath("pipe", O_WRONLY).error().sys_errno, ENXIO);
}
