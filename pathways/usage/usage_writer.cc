#include "pathways/usage/usage_writer.h"

#include <map>
#include <utility>

#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::usage {

absl::StatusOr<std::unique_ptr<UsageWriter>> UsageWriter::Open(const std::string& path, Executor* disk,
                                                               std::function<absl::Time()> wall_clock) {
  PW_ASSIGN_OR_RETURN(auto file, UsageFile::Open(path));
  return std::unique_ptr<UsageWriter>(new UsageWriter(std::move(file), disk, std::move(wall_clock)));
}

void UsageWriter::Write(std::vector<Entry> entries) {
  if (entries.empty()) return;
  disk_->Post([this, entries = std::move(entries)]() mutable { WriteNow(std::move(entries)); });
}

void UsageWriter::WriteNow(std::vector<Entry> entries) {
  std::map<std::string, Usage> by_user;  // while the disk stays full, memory grows only with the number of users
  for (const std::vector<Entry>* some : {&unwritten_, &entries}) {
    for (const Entry& entry : *some) by_user[entry.user] += entry.used;
  }
  unwritten_.clear();
  for (auto& [user, used] : by_user) unwritten_.push_back({user, used});
  const absl::Status written = file_->Add(wall_clock_(), unwritten_);
  if (written.ok()) {
    unwritten_.clear();
    complained_ = false;
  } else if (!std::exchange(complained_, true)) {
    PW_LOG_WARNING << "usage is not written, and kept until it can be: " << written.message();
  }
}

}  // namespace pw::usage
