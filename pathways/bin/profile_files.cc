#include "pathways/bin/profile_files.h"

#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw {
namespace {

constexpr size_t kLongestName = 100;
constexpr char kUnfinished[] = ".part";

std::string PlainName(const std::string& host) {
  std::string name = host.substr(0, kLongestName);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  }
  return name.empty() || name[0] == '.' ? absl::StrCat("host", name) : name;
}

}  // namespace

absl::Status ProfileFiles::Begin(size_t number, const std::string& host) {
  number_ = number;
  name_ = PlainName(host);
  for (int n = 2; !names_.insert(name_).second; ++n) name_ = absl::StrCat(PlainName(host), "_", n);
  name_ += ".xplane.pb";
  file_.open(folder_ / (name_ + kUnfinished), std::ios::binary | std::ios::trunc);
  return file_ ? absl::OkStatus() : CannotWrite(folder_ / name_);
}

absl::Status ProfileFiles::Write(std::string_view piece) {
  file_.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  return file_ ? absl::OkStatus() : CannotWrite(folder_ / name_);
}

absl::Status ProfileFiles::End(bool whole) {
  file_.close();
  const std::filesystem::path unfinished = folder_ / (name_ + kUnfinished);
  std::error_code error;
  if (!whole) {
    std::filesystem::remove(unfinished, error);
    return absl::OkStatus();
  }
  if (file_) std::filesystem::rename(unfinished, folder_ / name_, error);
  if (!file_ || error) return CannotWrite(folder_ / name_);
  written_[number_] = name_;
  return absl::OkStatus();
}

absl::Status ProfileFiles::WriteWhole(const std::string& name, std::string_view contents) {
  std::ofstream file(folder_ / name, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  return file.flush() ? absl::OkStatus() : CannotWrite(folder_ / name);
}

absl::Status ProfileFiles::CannotWrite(const std::filesystem::path& path) const {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot write ", path.string(), ": is the disk full, or the folder not yours?"));
}

}  // namespace pw
