#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/usage/usage_file.h"
#include "pathways/usage/usage_meter.h"
#include "pathways/usage/usage_writer.h"
#include "rapidcheck/gtest.h"

namespace pw::usage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kNoon = absl::FromUnixSeconds(1'700'049'600);  // 2023-11-15 12:00:00 UTC

TEST(UsageMeter, AddsUpByUserUntilItIsTaken) {
  UsageMeter meter;
  meter.Open(SessionId(1), "ada");
  meter.Open(SessionId(2), "ada");
  meter.Open(SessionId(3), "bob");
  meter.Add(SessionId(1), {.device_seconds = 2, .computations = 3});
  meter.Add(SessionId(2), {.device_seconds = 0.5});
  meter.Add(SessionId(9), {.device_seconds = 100});  // not a session
  const std::vector<Entry> taken = meter.Take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].user, "ada");
  EXPECT_DOUBLE_EQ(taken[0].used.device_seconds, 2.5);
  EXPECT_EQ(taken[0].used.computations, 3);
  EXPECT_EQ(taken[0].used.sessions, 2);
  EXPECT_EQ(taken[1].used.sessions, 1);
  EXPECT_THAT(meter.Take(), IsEmpty());
}

TEST(UsageMeter, TimeThatComesAfterASessionsEndCounts) {
  UsageMeter meter;
  meter.Open(SessionId(1), "ada");
  meter.End(SessionId(1));
  EXPECT_EQ(meter.Take().size(), 1u);
  meter.Add(SessionId(1), {.device_seconds = 1});
  EXPECT_EQ(meter.Take().size(), 1u);
  EXPECT_THAT(meter.Take(), IsEmpty());
  EXPECT_THAT(meter.Take(), IsEmpty());
  meter.Add(SessionId(1), {.device_seconds = 1});  // forgotten by now
  EXPECT_THAT(meter.Take(), IsEmpty());
}

RC_GTEST_PROP(UsageMeterProperty, NothingIsLostOrCountedTwice, ()) {
  UsageMeter meter;
  int64_t added = 0, taken = 0;
  for (uint64_t id = 1; id <= 3; ++id) meter.Open(SessionId(id), id == 1 ? "a" : "b");
  for (int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5))) {
    if (step == 0) {
      for (const Entry& entry : meter.Take()) taken += entry.used.computations;
    } else if (step <= 3) {
      meter.Add(SessionId(static_cast<uint64_t>(step)), {.computations = step});
      added += step;
    }
  }
  for (const Entry& entry : meter.Take()) taken += entry.used.computations;
  RC_ASSERT(added == taken);
}

class UsageFileTest : public testing::Test {
 protected:
  UsageFileTest() { std::filesystem::remove_all(path); }
  ~UsageFileTest() override { std::filesystem::remove_all(path); }

  // Returns each row as text.
  std::vector<std::string> Rows() {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    std::vector<std::string> rows;
    sqlite3_exec(
        database,
        "SELECT day || ' ' || user || ' ' || device_seconds || ' ' || computations || ' ' || sessions FROM usage ORDER BY day, "
        "user",
        [](void* out, int, char** values, char**) {
          static_cast<std::vector<std::string>*>(out)->push_back(values[0]);
          return 0;
        },
        &rows, nullptr);
    sqlite3_close(database);
    return rows;
  }

  const std::string path = testing::TempDir() + "usage_" + std::to_string(getpid()) + ".sqlite";
};

TEST_F(UsageFileTest, AddsToTheRowOfTheDayAndTheUser) {
  auto file = *UsageFile::Open(path);
  EXPECT_TRUE(
      file->Add(kNoon, {{"ada", {.device_seconds = 1.5, .computations = 2, .sessions = 1}}, {"bo'b", {.computations = 7}}}).ok());
  EXPECT_TRUE(file->Add(kNoon + absl::Hours(11), {{"ada", {.device_seconds = 0.5, .computations = 1}}}).ok());
  EXPECT_TRUE(file->Add(kNoon + absl::Hours(12), {{"ada", {.device_seconds = 8}}}).ok());
  EXPECT_THAT(Rows(), ElementsAre("2023-11-15 ada 2.0 3 1", "2023-11-15 bo'b 0.0 7 0", "2023-11-16 ada 8.0 0 0"));
}

TEST_F(UsageFileTest, TellsTheDeviceSecondsOfADay) {
  auto file = *UsageFile::Open(path);
  ASSERT_TRUE(file->Add(kNoon, {{"ada", {.device_seconds = 1.5}}, {"bob", {.computations = 7}}}).ok());
  ASSERT_TRUE(file->Add(kNoon + absl::Hours(24), {{"ada", {.device_seconds = 8}}}).ok());
  EXPECT_EQ(*file->DeviceSeconds(kNoon + absl::Hours(1)), (std::map<std::string, double>{{"ada", 1.5}, {"bob", 0}}));
  EXPECT_TRUE(file->DeviceSeconds(kNoon - absl::Hours(24))->empty());
}

TEST_F(UsageFileTest, GoesOnWhereItEnded) {
  EXPECT_TRUE((*UsageFile::Open(path))->Add(kNoon, {{"ada", {.computations = 2}}}).ok());
  EXPECT_TRUE((*UsageFile::Open(path))->Add(kNoon, {{"ada", {.computations = 3}}}).ok());
  EXPECT_THAT(Rows(), ElementsAre("2023-11-15 ada 0.0 5 0"));
}

TEST_F(UsageFileTest, AnotherFileIsNotOverwritten) {
  std::ofstream(path) << std::string(4096, 'x');
  EXPECT_THAT(std::string(UsageFile::Open(path).status().message()), HasSubstr("not a file of usage"));
  EXPECT_THAT(std::string(UsageFile::Open("/nowhere/at/all").status().message()), HasSubstr("/nowhere/at/all"));
}

TEST_F(UsageFileTest, ANewerFormIsRefused) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  EXPECT_THAT(std::string(UsageFile::Open(path).status().message()), HasSubstr("newer release"));
}

TEST_F(UsageFileTest, WhatCannotBeWrittenIsWrittenLater) {
  ManualExecutor disk;
  auto writer = *UsageWriter::Open(path, &disk, [] { return kNoon; });
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "DROP TABLE usage", nullptr, nullptr, nullptr), SQLITE_OK);
  writer->Write({{"ada", {.computations = 1}}});
  disk.RunUntilIdle();
  ASSERT_EQ(
      sqlite3_exec(other,
                   "CREATE TABLE usage (day TEXT, user TEXT, device_seconds REAL, computations INTEGER, compile_seconds REAL, "
                   "array_byte_seconds REAL, sessions INTEGER, PRIMARY KEY (day, user))",
                   nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(other);
  writer->Write({{"ada", {.computations = 2}}, {"bob", {.computations = 4}}});
  disk.RunUntilIdle();
  EXPECT_THAT(Rows(), ElementsAre("2023-11-15 ada 0.0 3 0", "2023-11-15 bob 0.0 4 0"));
}

}  // namespace
}  // namespace pw::usage
