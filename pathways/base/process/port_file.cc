#include "pathways/base/process/port_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace pw {

absl::Status WritePortFile(const std::string& path, const std::string& text) {
  const std::string draft = path + ".draft";
  std::ofstream file(draft);
  file << text << "\n";
  file.close();
  if (file.good() && std::rename(draft.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(errno), ". Name another file with --port-file."));
}

}  // namespace pw
