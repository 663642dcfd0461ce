// For tests: a new folder, removed with its contents.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "pathways/storage/files.h"

namespace pw::storage::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "/pw_storage_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = std::filesystem::path(name).lexically_normal();
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  Folder root() const { return {path_, ""}; }

 private:
  std::filesystem::path path_;
};

}  // namespace pw::storage::testing
