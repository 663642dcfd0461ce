// StaticFiles: the files of a page, read once and kept in memory. Requests look files up by their whole name and never reach the
// disk.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

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
  // Reads a folder and its subfolders, without following links. NOT_FOUND, or INVALID_ARGUMENT: too many or too large files, or
  // files of a kind that no page has.
  static absl::StatusOr<StaticFiles> Load(const std::string& folder);

  // Adds a file that is not on the disk. REQUIRES: there is no file at this path.
  void Add(const std::string& path, StaticFile file) { files_.emplace(path, std::move(file)); }
  // Returns a file, or null. `path`: such as "/assets/index.js"; "/" means "/index.html".
  const StaticFile* Find(absl::string_view path) const;

 private:
  std::map<std::string, StaticFile> files_;  // by path
};

}  // namespace pw::http
