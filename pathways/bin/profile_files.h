// ProfileFiles: writes the XSpaces of a profile into a folder, each as HOST.xplane.pb. TensorBoard and XProf open the folder if it is
// LOGDIR/plugins/profile/NAME.
//
// A file gets its name once all of it has come; until then it is NAME.part. Names of hosts come from the controller and may be anything. So
// the name of a file has letters, digits, '.', '_' and '-' alone, and no two hosts have the same.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "pathways/bin/controller_questions.h"

namespace pw {

class ProfileFiles final : public ProfileWriter {
 public:
  explicit ProfileFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  absl::Status Begin(size_t number, const std::string& host) override;
  absl::Status Write(std::string_view piece) override;
  absl::Status End(bool whole) override;
  // Writes another file into the folder.
  absl::Status WriteWhole(const std::string& name, std::string_view contents);

  // The names of the files that were written, by the numbers of their hosts.
  const std::map<size_t, std::string>& written() const { return written_; }

 private:
  absl::Status CannotWrite(const std::filesystem::path& path) const;

  const std::filesystem::path folder_;
  std::set<std::string> names_;
  std::map<size_t, std::string> written_;
  size_t number_ = 0;  // the host whose file is open
  std::string name_;
  std::ofstream file_;
};

}  // namespace pw
