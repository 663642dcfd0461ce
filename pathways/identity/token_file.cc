#include "pathways/identity/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/sockets/socket.h"

namespace pw::identity {
namespace {

constexpr size_t kMostBytes = 4 << 10;

absl::Status Failed(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  return error == EACCES || error == EPERM ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

absl::Status WriteAll(int fd, absl::string_view text, const std::string& path) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("write", path);
    at += static_cast<size_t>(n);
  }
  return ::fsync(fd) == 0 ? absl::OkStatus() : Failed("write", path);
}

}  // namespace

std::string ToText(const TokenFile& file) {
  if (file.tls_off) return absl::StrCat("address ", file.address, "\ntls off\n");
  const auto [name, value] =
      file.token_from.empty() ? std::pair("token ", file.token) : std::pair("token-from ", file.token_from);
  return absl::StrCat("address ", file.address, "\nauthority ", net::FingerprintText(file.authority), "\n", name, value, "\n");
}

absl::StatusOr<TokenFile> ParseTokenFile(absl::string_view text) {
  std::map<std::string, std::string> fields;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> field = absl::StrSplit(absl::StripAsciiWhitespace(line), absl::MaxSplits(' ', 1));
    fields[field.first] = field.second;
  }
  TokenFile file;
  file.address = fields["address"];
  if (file.address.empty())
    return absl::InvalidArgumentError("a token file has a line 'address HOST:PORT': this is not one of 'pathways token create'");
  file.tls_off = fields["tls"] == "off";
  if (file.tls_off) return file;
  PW_ASSIGN_OR_RETURN(file.authority, net::ParseFingerprint(fields["authority"]));
  file.token = fields["token"];
  file.token_from = fields["token-from"];
  if (file.token.empty() == file.token_from.empty())
    return absl::InvalidArgumentError(
        "a token file has a line 'token pw-...', or 'token-from PATH', and not both: this is not one of 'pathways token create'");
  if (!file.token_from.empty() && file.token_from[0] != '/')
    return absl::InvalidArgumentError("the line 'token-from PATH' needs a path that begins with /");
  return file;
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t limit) {
  const net::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return Failed("read", path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a file"));
  if ((info.st_mode & 077) != 0)
    return absl::PermissionDeniedError(absl::StrCat(path, " holds a secret, and others can read it: chmod 600 ", path));
  std::string text(limit + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("read", path);
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > limit) return absl::InvalidArgumentError(absl::StrCat(path, " has more than ", limit, " bytes"));
  text.resize(size);
  return text;
}

absl::Status WritePrivateFile(const std::string& path, absl::string_view text) {
  const std::string draft = absl::StrCat(path, ".draft");
  ::unlink(draft.c_str());
  {
    const net::Fd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) return Failed("write", draft);
    PW_RETURN_IF_ERROR(WriteAll(fd.get(), text, draft));
  }
  return ::rename(draft.c_str(), path.c_str()) == 0 ? absl::OkStatus() : Failed("write", path);
}

absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path) {
  PW_ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path, kMostBytes));
  absl::StatusOr<TokenFile> file = ParseTokenFile(text);
  if (file.ok()) return file;
  return absl::Status(file.status().code(), absl::StrCat(path, ": ", file.status().message()));
}

}  // namespace pw::identity
