// LogTails: the last lines of a cluster's logs, for the operators' page. The logs are the files NAME.log of a folder, one for each process
// (python/pathways/_cluster/records.py); 'pathways logs' shows the same.
//
// Invariants:
//   LT-1  only regular files directly in the folder are read, and no links
//   LT-2  an answer reads at most kTailBytes of each file and kMostFiles files, and has at most kMostLines lines of each
// Answer reads files and may block, so it is called on a thread that may wait.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace pw::http {

// A line of a log. A line that has no level of its own, such as a traceback's, has that of the line before it.
struct LoggedLine {
  char level = 'I';  // D, I, W or E (base/log.h)
  std::string text;
};

// Splits text into lines with their levels. Pure.
std::vector<LoggedLine> LinesOf(absl::string_view text);

struct LogQuery {
  char level = 'D';     // the lowest that is wanted
  std::string text;     // in lower case: wanted lines contain it, in any case
  std::string process;  // the only one that is wanted; empty: all
  size_t lines = 100;   // the last ones of each process
};
// Reads "level=W&text=a%20b&process=host0&lines=50". Fields that are missing or not valid have their defaults. Pure.
LogQuery ReadLogQuery(absl::string_view query);

class LogTails {
 public:
  static constexpr size_t kTailBytes = size_t{256} << 10;
  static constexpr size_t kMostFiles = 64;
  static constexpr size_t kMostLines = 1000;

  explicit LogTails(std::string folder) : folder_(std::move(folder)) {}

  // Returns {"names": [name, ...], "processes": [{"name", "lines": [[level, text], ...], "cut": whether earlier lines were not read}, ...]}:
  // all names, and the wanted lines of at most kMostFiles processes.
  std::string Answer(const LogQuery& query) const;

 private:
  const std::string folder_;
};

}  // namespace pw::http
