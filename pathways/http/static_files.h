// StaticFiles: the files of a page, read once and kept in memory. What is asked for is looked up by its whole name, so no request reaches the disk.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::http {

struct StaticFile {
  std::string content_type;
  std::string bytes;
};

class StaticFiles {
 public:
  static constexpr size_t kMostFiles = 64;
  static constexpr size_t kMostBytes = 8 << 20;  // of all together

  StaticFiles() = default;
  explicit StaticFiles(std::map<std::string, StaticFile> files) : files_(std::move(files)) {}
  // Reads a folder and the folders in it, links not followed. NOT_FOUND, or INVALID_ARGUMENT: too much, or a kind of file that no page has.
  static absl::StatusOr<StaticFiles> Load(const std::string& folder);

  // `path`: "/", which is "/index.html", or "/assets/index.js". Null: there is no such file.
  const StaticFile* Find(absl::string_view path) const;

 private:
  std::map<std::string, StaticFile> files_;  // by path
};

}  // namespace pw::http
