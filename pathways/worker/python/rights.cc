#include "pathways/worker/python/rights.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
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

constexpr char kName[] = "pathways-python-";

// Returns a descriptor that holds the lock of a folder; none if another process has it.
net::Fd Lock(const std::filesystem::path& folder) {
  net::Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return net::Fd();
  return fd;
}

void Remove(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);  // follows no links
  if (error) {
    PW_LOG_WARNING << "temporary files are left in " << folder.string() << ": " << error.message();
  }
}

void RemoveUnused(const std::filesystem::path& around) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(around, error), end; !error && at != end; at.increment(error)) {
    if (!absl::StartsWith(at->path().filename().string(), kName)) continue;
    if (const net::Fd lock = Lock(at->path()); lock.valid()) Remove(at->path());
  }
}

}  // namespace

absl::Status CheckRights(const PythonRights& rights) {
  if (rights.memory_bytes < 0 || rights.processes < 0 || !(rights.seconds >= 0))
    return absl::InvalidArgumentError("--python-memory, --python-processes and --python-seconds are not negative");
  if (rights.user.empty()) {
    if (rights.processes == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--python-processes needs --python-user: the system counts a user's processes, and this process's are among them");
  }
  PW_ASSIGN_OR_RETURN(const User user, Find(rights.user));
  if (user.id == 0) return absl::InvalidArgumentError("--python-user: root owns everything, so name another user");
  if (geteuid() == 0 || user.id == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("--python-user: only root can start processes as '", rights.user, "', and this worker is not root's"));
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Create(const std::string& user) {
  std::error_code error;
  const std::filesystem::path around = std::filesystem::temp_directory_path(error);
  if (error) return absl::UnavailableError(absl::StrCat("there is no folder for temporary files: ", error.message()));
  RemoveUnused(around);
  std::string path;
  net::Fd lock;
  // Tries again if another process has removed the new folder as unused before it was locked.
  for (int attempt = 0; attempt < 10 && !(lock.valid() && std::filesystem::exists(path, error)); ++attempt) {
    path = around / absl::StrCat(kName, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) break;
    lock = Lock(path);
  }
  if (!lock.valid())
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder for temporary files in ", around.string(), ": ", std::strerror(errno)));
  std::unique_ptr<PrivateFolder> folder(new PrivateFolder(std::move(path), std::move(lock)));
  if (user.empty()) return folder;
  PW_ASSIGN_OR_RETURN(const User owner, Find(user));
  if (chown(folder->path().c_str(), owner.id, owner.group) != 0)
    return absl::UnavailableError(absl::StrCat("cannot give ", folder->path(), " to ", user, ": ", std::strerror(errno)));
  return folder;
}

PrivateFolder::~PrivateFolder() { Remove(path_); }

std::vector<std::string> WithRights(const PythonRights& rights, const std::string& temporary,
                                    const std::vector<std::string>& command) {
  std::vector<std::string> words = {"env", absl::StrCat("TMPDIR=", temporary)};
  const absl::StatusOr<User> user = Find(rights.user);
  if (user.ok())
    words.insert(words.end(),
                 {absl::StrCat("HOME=", user->home), absl::StrCat("USER=", rights.user), absl::StrCat("LOGNAME=", rights.user)});
  if (rights.memory_bytes > 0 || rights.processes > 0) words.push_back("prlimit");
  if (rights.memory_bytes > 0) words.push_back(absl::StrCat("--data=", rights.memory_bytes));
  if (rights.processes > 0) words.push_back(absl::StrCat("--nproc=", rights.processes));
  if (user.ok() && user->id != geteuid()) {
    words.insert(words.end(), {"setpriv", absl::StrCat("--reuid=", user->id), absl::StrCat("--regid=", user->group),
                               "--init-groups", "--no-new-privs"});
  }
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace pw::worker
