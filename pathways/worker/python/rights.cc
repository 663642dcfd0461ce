#include "pathways/worker/python/rights.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::worker {
namespace {

struct User {
  uid_t id;
  gid_t group;
  std::string home;
};

absl::StatusOr<User> Find(const std::string& name) {
  std::vector<char> room(16 << 10);
  passwd entry;
  passwd* found = nullptr;
  if (getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return absl::NotFoundError(absl::StrCat("--python-user: this machine has no user '", name, "'"));
  return User{found->pw_uid, found->pw_gid, found->pw_dir};
}

}  // namespace

absl::Status CheckRights(const PythonRights& rights) {
  if (rights.memory_bytes < 0 || rights.processes < 0) return absl::InvalidArgumentError("--python-memory and --python-processes are not negative");
  if (rights.user.empty()) {
    if (rights.processes == 0) return absl::OkStatus();
    return absl::InvalidArgumentError("--python-processes needs --python-user: the system counts a user's processes, and this process's are among them");
  }
  PW_ASSIGN_OR_RETURN(const User user, Find(rights.user));
  if (user.id == 0) return absl::InvalidArgumentError("--python-user: root owns everything, so name another user");
  if (geteuid() == 0 || user.id == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("--python-user: only root can start processes as '", rights.user, "', and this worker is not root's"));
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Create(const std::string& user) {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error) / "pathways-python-XXXXXX";
  if (error || mkdtemp(path.data()) == nullptr) return absl::UnavailableError(absl::StrCat("cannot make a folder for temporary files: ", std::strerror(errno)));
  std::unique_ptr<PrivateFolder> folder(new PrivateFolder(std::move(path)));
  if (user.empty()) return folder;
  PW_ASSIGN_OR_RETURN(const User owner, Find(user));
  if (chown(folder->path().c_str(), owner.id, owner.group) != 0)
    return absl::UnavailableError(absl::StrCat("cannot give ", folder->path(), " to ", user, ": ", std::strerror(errno)));
  return folder;
}

PrivateFolder::~PrivateFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);  // follows no links
  if (error) PW_LOG_WARNING << "temporary files are left in " << path_ << ": " << error.message();
}

std::vector<std::string> WithRights(const PythonRights& rights, const std::string& temporary, const std::vector<std::string>& command) {
  std::vector<std::string> words = {"env", absl::StrCat("TMPDIR=", temporary)};
  const absl::StatusOr<User> user = Find(rights.user);
  if (user.ok()) words.insert(words.end(), {absl::StrCat("HOME=", user->home), absl::StrCat("USER=", rights.user), absl::StrCat("LOGNAME=", rights.user)});
  if (rights.memory_bytes > 0 || rights.processes > 0) words.push_back("prlimit");
  if (rights.memory_bytes > 0) words.push_back(absl::StrCat("--data=", rights.memory_bytes));
  if (rights.processes > 0) words.push_back(absl::StrCat("--nproc=", rights.processes));
  if (user.ok() && user->id != geteuid()) {
    words.insert(words.end(), {"setpriv", absl::StrCat("--reuid=", user->id), absl::StrCat("--regid=", user->group), "--init-groups", "--no-new-privs"});
  }
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace pw::worker
