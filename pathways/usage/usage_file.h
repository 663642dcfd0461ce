// UsageFile: the usage of each user and day, in an SQLite file (docs/operators.md). `pathways usage` reads it.
//
// The file has one row for each day (UTC) and user, to which Add adds. It has a write-ahead log, so that readers do not wait for
// the writer. Its methods block: for a thread that may wait for the disk.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/usage/usage_meter.h"

struct sqlite3;

namespace pw::usage {

class UsageFile {
 public:
  // Makes the file if it does not exist. FAILED_PRECONDITION: it is another kind of file, or of a newer release. UNAVAILABLE: it
  // cannot be opened.
  static absl::StatusOr<std::unique_ptr<UsageFile>> Open(const std::string& path);
  ~UsageFile();

  // Adds all entries to the rows of this day, or none.
  absl::Status Add(absl::Time now, const std::vector<Entry>& entries);
  // Returns the device seconds of each user on this day.
  absl::StatusOr<std::map<std::string, double>> DeviceSeconds(absl::Time now) const;

 private:
  UsageFile(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  absl::Status Run(const char* sql);
  absl::Status AddOne(const std::string& day, const Entry& entry);
  absl::Status Error(const std::string& what) const;

  const std::string path_;
  sqlite3* const database_;
};

}  // namespace pw::usage
