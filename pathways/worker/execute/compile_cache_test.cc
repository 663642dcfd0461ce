#include "pathways/worker/execute/compile_cache.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {
namespace fs = std::filesystem;

class CompileCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = fs::path(::testing::TempDir()) / ("pw_cache_" + std::to_string(getpid())); }
  void TearDown() override { fs::remove_all(folder_); }
  int Files() const {
    int n = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) n += entry.is_regular_file() ? 1 : 0;
    return n;
  }
  fs::path folder_;
};

TEST_F(CompileCacheTest, KeepsWhatItIsGiven) {
  CompileCache cache(folder_, 1 << 20);
  EXPECT_EQ(cache.Read("a"), std::nullopt);
  cache.Write("a", "program");
  EXPECT_EQ(CompileCache(folder_, 1 << 20).Read("a"), "program");
  EXPECT_EQ(Files(), 1);
  CompileCache off("", 0);
  off.Write("a", "x");
  EXPECT_EQ(off.Read("a"), std::nullopt);
}

TEST_F(CompileCacheTest, DamagedEntriesAreDropped) {
  CompileCache cache(folder_, 1 << 20);
  cache.Write("a", "program");
  const fs::path file = fs::directory_iterator(folder_)->path();
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-2, std::ios::end) << "X";
  EXPECT_EQ(cache.Read("a"), std::nullopt);
  EXPECT_EQ(Files(), 0);
  cache.Write("a", "program");
  fs::resize_file(file, 5);
  EXPECT_EQ(cache.Read("a"), std::nullopt);
}

TEST_F(CompileCacheTest, ReadsNothingThatOthersMayHaveWritten) {
  CompileCache cache(folder_, 1 << 20);
  cache.Write("a", "program");
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  fs::permissions(folder_, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(cache.Read("a"), std::nullopt);
  cache.Write("b", "program");
  EXPECT_EQ(Files(), 1);
  fs::permissions(folder_, fs::perms::group_write, fs::perm_options::remove);
  EXPECT_EQ(cache.Read("a"), "program");
}

TEST_F(CompileCacheTest, WhatAKilledWriterLeftGoes) {
  CompileCache cache(folder_, 1 << 20);
  cache.Write("a", "program");
  for (const char* name : {"old.program.1.2.tmp", "new.program.1.3.tmp"}) std::ofstream(folder_ / name) << "half a pro";
  fs::last_write_time(folder_ / "old.program.1.2.tmp", fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.Write("b", "program");
  EXPECT_FALSE(fs::exists(folder_ / "old.program.1.2.tmp"));
  EXPECT_TRUE(fs::exists(folder_ / "new.program.1.3.tmp"));
}

TEST_F(CompileCacheTest, ForgetsTheLeastRecentlyUsed) {
  CompileCache cache(folder_, 1000);
  const std::string value(400, 'v');
  cache.Write("a", value);
  cache.Write("b", value);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(entry.path().stem() == "a" ? 2 : 1));
  }
  EXPECT_EQ(cache.Read("a"), value);  // the most recently used
  cache.Write("c", value);
  EXPECT_EQ(cache.Read("b"), std::nullopt);
  EXPECT_EQ(cache.Read("a"), value);
  EXPECT_EQ(cache.Read("c"), value);
}

// Runs `body` in a process that sees a disk of this size at the path. Returns whether it was true; nullopt: this user may not mount one.
std::optional<bool> OnSmallDisk(const fs::path& path, const std::string& size, const std::function<bool()>& body) {
  fs::create_directories(path);
  fs::permissions(path, fs::perms::owner_all);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("none", path.c_str(), "tmpfs", 0, ("mode=0700,size=" + size).c_str()) == 0;
    ::_exit(!mounted ? 77 : body() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return std::nullopt;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(CompileCacheTest, AFullDiskTakesTheNewestPrograms) {
  const std::string value(30'000, 'v');
  const std::optional<bool> fits = OnSmallDisk(folder_, "128k", [&] {
    const CompileCache cache(folder_, 1 << 30);
    for (int i = 0; i < 10; ++i) {
      const std::string key = std::to_string(i);
      cache.Write(key, value);
      if (cache.Read(key) != value) return false;
    }
    // Others fill the disk: the cache gives way, and comes back when there is room.
    std::ofstream(folder_ / "others", std::ios::binary) << std::string(200'000, 'x');
    cache.Write("a", value);
    fs::remove(folder_ / "others");
    cache.Write("b", value);
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".tmp") return false;
    }
    return cache.Read("b") == value;
  });
  if (!fits.has_value()) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_TRUE(*fits);
}

TEST_F(CompileCacheTest, AFolderThatCannotBeWrittenIsNoError) {
  CompileCache cache("/proc/nowhere", 1000);
  cache.Write("a", "x");
  EXPECT_EQ(cache.Read("a"), std::nullopt);
}

TEST_F(CompileCacheTest, TheKeyCoversEverythingThatMatters) {
  device::CompileRequest request;
  request.program = "p";
  request.options = "o";
  request.devices = {0};
  const device::RuntimeInfo runtime{"cpu", "1", "1.13.0", "2"};
  const CompileCache cache(folder_, 1000, "avx2");
  const std::string key = cache.Key(request, runtime);
  EXPECT_EQ(key.size(), 64u) << "a SHA-256";
  EXPECT_EQ(CompileCache("elsewhere", 1, "avx2").Key(request, runtime), key);
  EXPECT_NE(CompileCache(folder_, 1000, "avx512").Key(request, runtime), key);
  auto differs = [&](auto change) {
    device::CompileRequest r = request;
    device::RuntimeInfo i = runtime;
    change(r, i);
    return cache.Key(r, i) != key;
  };
  EXPECT_TRUE(differs([](auto& r, auto&) {
    r.program = "po";
    r.options = "";
  }));
  EXPECT_TRUE(differs([](auto& r, auto&) { r.options = "O"; }));
  EXPECT_TRUE(differs([](auto& r, auto&) { r.devices = {1}; }));
  EXPECT_TRUE(differs([](auto& r, auto&) { r.num_partitions = 2; }));
  EXPECT_TRUE(differs([](auto& r, auto&) { r.host_callbacks = true; }));
  EXPECT_TRUE(differs([](auto&, auto& i) { i.platform_version = "2"; }));
}

TEST_F(CompileCacheTest, TheSecondWorkerCompilesNothing) {
  WorkerHarness::Setup setup;
  setup.compile_cache = folder_;
  for (int run = 0; run < 2; ++run) {
    WorkerHarness w(setup);
    w.Compile(1, kAdd);
    w.Put(10, 100, {1, 2, 3, 4});
    w.Settle();
    w.Execute(11, 1, {100}, {101});
    EXPECT_EQ(w.Read(101, 0), (std::vector<float>{2, 3, 4, 5}));
    EXPECT_EQ(w.runtime.compilations(), run == 0 ? 1 : 0);
    EXPECT_EQ(w.connection.compiled[1].from_cache(), run == 1);
  }
}

}  // namespace
}  // namespace pw::worker
