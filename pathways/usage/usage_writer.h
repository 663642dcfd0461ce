// UsageWriter: adds usage to a file (usage_file.h), on a thread that may wait for the disk. Usage that cannot be written is kept
// and written with the next one. A failure is logged once, until a write succeeds.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/threads/executor.h"
#include "pathways/usage/usage_file.h"

namespace pw::usage {

class UsageWriter {
 public:
  // `disk` runs one task at a time. `wall_clock` returns the time in UTC. Both must outlive this, and `disk` must have run all
  // its tasks before this is destroyed.
  static absl::StatusOr<std::unique_ptr<UsageWriter>> Open(const std::string& path, Executor* disk,
                                                           std::function<absl::Time()> wall_clock);

  // Returns the device seconds of each user that are written for today. Call it before Write: it blocks.
  absl::StatusOr<std::map<std::string, double>> DeviceSecondsToday() const { return file_->DeviceSeconds(wall_clock_()); }
  // Writes later, on `disk`. Any thread.
  void Write(std::vector<Entry> entries);

 private:
  UsageWriter(std::unique_ptr<UsageFile> file, Executor* disk, std::function<absl::Time()> wall_clock)
      : file_(std::move(file)), disk_(disk), wall_clock_(std::move(wall_clock)) {}
  void WriteNow(std::vector<Entry> entries);

  const std::unique_ptr<UsageFile> file_;
  Executor* const disk_;
  const std::function<absl::Time()> wall_clock_;
  std::vector<Entry> unwritten_;  // used on `disk` only, as all below
  bool complained_ = false;
};

}  // namespace pw::usage
