#include "pathways/http/static_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::http {
namespace {

namespace fs = std::filesystem;

// Returns an empty string for a kind of file that no page of ours has.
std::string ContentType(const fs::path& path) {
  const std::string kind = path.extension();
  if (kind == ".html") return "text/html; charset=utf-8";
  if (kind == ".js") return "text/javascript; charset=utf-8";
  if (kind == ".css") return "text/css; charset=utf-8";
  if (kind == ".svg") return "image/svg+xml";
  if (kind == ".txt") return "text/plain; charset=utf-8";
  return "";
}

}  // namespace

absl::StatusOr<StaticFiles> StaticFiles::Load(const std::string& folder) {
  std::error_code error;
  std::map<std::string, StaticFile> files;
  size_t bytes = 0;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error) || it->is_symlink(error)) continue;
    StaticFile file{ContentType(it->path()), {}};
    if (file.content_type.empty()) return absl::InvalidArgumentError(absl::StrCat(it->path().string(), " is no file of a page"));
    bytes += it->file_size(error);
    if (error) break;
    if (files.size() == kMostFiles || bytes > kMostBytes)
      return absl::InvalidArgumentError(
          absl::StrCat(folder, " has more than ", kMostFiles, " files or ", kMostBytes >> 20, " MiB: it is no page of ours"));
    std::ifstream in(it->path(), std::ios::binary);
    file.bytes.assign(std::istreambuf_iterator<char>(in), {});
    files.emplace(absl::StrCat("/", fs::relative(it->path(), folder).string()), std::move(file));
  }
  if (error) return absl::NotFoundError(absl::StrCat("cannot read the folder ", folder, ": ", error.message()));
  if (!files.contains("/index.html")) return absl::NotFoundError(absl::StrCat(folder, " has no index.html"));
  return StaticFiles(std::move(files));
}

const StaticFile* StaticFiles::Find(absl::string_view path) const {
  const auto it = files_.find(path == "/" ? "/index.html" : std::string(path));
  return it == files_.end() ? nullptr : &it->second;
}

}  // namespace pw::http
