#include "pathways/frontend/plugin_programs/storage.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/try_allocate.h"

namespace pw::frontend {
namespace {

namespace fs = std::filesystem;

bool HasDots(const fs::path& path) {
  return std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".." || part == "."; });
}

// Follows links first, so that none leads out of `folder`.
bool IsBelow(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  if (error) return false;
  const fs::path real_folder = fs::weakly_canonical(folder, error);
  if (error) return false;
  const fs::path relative = real.lexically_relative(real_folder);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

absl::StatusOr<fs::path> Storage::Resolve(const std::string& location) const {
  const size_t scheme = location.find("://");
  const bool object = scheme != std::string::npos;
  const fs::path path = object ? fs::path(location.substr(0, scheme)) / location.substr(scheme + 3) : fs::path(location);
  if (HasDots(path) || location.find('\0') != std::string::npos || path.is_absolute() == object) {
    return absl::InvalidArgumentError(
        absl::StrCat("the location '", location, "' is neither an absolute path nor SCHEME://BUCKET/OBJECT"));
  }
  if (object) {
    if (!objects_in_.empty()) return fs::path(objects_in_) / path;
    return absl::PermissionDeniedError(
        absl::StrCat("this controller has nowhere to keep ", location, ": start it with --object-directory"));
  }
  if (!paths_below_.empty() && IsBelow(path, paths_below_)) return path;
  return absl::PermissionDeniedError(absl::StrCat("this controller does not let clients use ", location,
                                                  ": start it with a --persistence-directory that contains it"));
}

absl::Status WriteWholeFile(const fs::path& path, const Bytes& data) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::path unfinished = path;
  unfinished += ".unfinished";
  if (!error) {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(unfinished, path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path.string(), ": ", error.message()));
}

absl::StatusOr<Bytes> ReadWholeFile(const fs::path& path, int64_t limit) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t size = file ? static_cast<int64_t>(file.tellg()) : -1;
  if (size < 0) return absl::NotFoundError(absl::StrCat("cannot read ", path.string()));
  if (size > limit)
    return absl::ResourceExhaustedError(absl::StrCat(path.string(), " has ", size, " bytes; at most ", limit, " were expected"));
  PW_ASSIGN_OR_RETURN(AlignedBytes data, TryAllocateHostBuffer(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(data.data()), size);
  if (!file) return absl::UnavailableError(absl::StrCat("cannot read all of ", path.string()));
  return std::move(data).Freeze();
}

}  // namespace pw::frontend
