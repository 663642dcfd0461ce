#include "pathways/base/process/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "pathways/base/status_macros.h"

extern char** environ;

namespace pw {
namespace {

absl::Status Unavailable(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

// Gives the child its end of the connection and no other descriptor, its own process group, and no blocked or ignored signals.
class SpawnSetup {
 public:
  explicit SpawnSetup(int its_end) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, its_end, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, its_end, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Returns whether the text, NAME=VALUE, is of the variable.
bool IsOf(std::string_view text, std::string_view name) {
  return text.size() > name.size() && text.substr(0, name.size()) == name && text[name.size()] == '=';
}

// Returns this process's environment without some variables, and with others that it does not have.
std::vector<char*> Environment(const std::vector<std::string>& without, const std::vector<std::string>& with) {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool dropped =
        std::any_of(without.begin(), without.end(), [variable](const std::string& name) { return IsOf(*variable, name); });
    if (!dropped) kept.push_back(*variable);
  }
  for (const std::string& more : with) {
    const std::string_view name = std::string_view(more).substr(0, more.find('='));
    const bool inherited = std::any_of(kept.begin(), kept.end(), [name](const char* variable) { return IsOf(variable, name); });
    if (!inherited) kept.push_back(const_cast<char*>(more.c_str()));
  }
  kept.push_back(nullptr);
  return kept;
}

}  // namespace

ChildProcess::~ChildProcess() { End(); }

absl::Status ChildProcess::EnsureRunning() {
  if (pid_ != 0 && IsListening()) return absl::OkStatus();
  End();
  return Start();
}

absl::Status ChildProcess::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Unavailable("cannot make a socket", errno);
  std::vector<char*> words;
  for (const std::string& word : options_.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<char*> environment = Environment(options_.without, options_.with);
  const SpawnSetup setup(ends[1]);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words[0], setup.actions(), setup.attributes(), words.data(), environment.data());
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return Unavailable(absl::StrCat("cannot start ", options_.command[0]), error);
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    pid_ = pid;
    socket_ = ends[0];
  }
  if (options_.address_space_bytes == 0) return absl::OkStatus();
  // Set before the child receives any input.
  const rlimit limit{static_cast<rlim_t>(options_.address_space_bytes), static_cast<rlim_t>(options_.address_space_bytes)};
  if (prlimit(pid, RLIMIT_AS, &limit, nullptr) == 0) return absl::OkStatus();
  const absl::Status status = Unavailable(absl::StrCat("cannot limit the memory of ", options_.command[0]), errno);
  End();
  return status;
}

bool ChildProcess::IsListening() const {
  char byte;
  return recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

absl::Status ChildProcess::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Unavailable("it does not take its input", errno);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status ChildProcess::Read(void* to, size_t size) {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = recv(socket_, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unavailable("it does not answer", errno);
    if (got == 0) return absl::UnavailableError("it has closed its output");
    at += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ChildProcess::ReadSome(void* to, size_t size) {
  ssize_t got;
  do {
    got = recv(socket_, to, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Unavailable("it does not answer", errno);
  if (got == 0) return absl::UnavailableError("it has closed its output");
  return static_cast<size_t>(got);
}

std::string ChildProcess::End() {
  if (pid_ == 0) return "it was not started";
  Kill();
  int status = 0;
  pid_t pid, socket;
  {
    std::lock_guard<std::mutex> lock(mu_);
    pid = std::exchange(pid_, 0);
    socket = std::exchange(socket_, -1);
  }
  close(socket);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return absl::StrCat("it exited with status ", WEXITSTATUS(status));
  return absl::StrCat("it was ended by signal ", WTERMSIG(status));
}

pid_t ChildProcess::pid() const {
  std::lock_guard<std::mutex> lock(mu_);
  return pid_;
}

void ChildProcess::Kill() {
  std::lock_guard<std::mutex> lock(mu_);
  if (pid_ == 0) return;
  kill(-pid_, SIGKILL);
  shutdown(socket_, SHUT_RDWR);  // one of its own children may hold the other end
}

}  // namespace pw
