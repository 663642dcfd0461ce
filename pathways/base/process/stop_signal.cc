#include "pathways/base/process/stop_signal.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"

namespace pw {

StopSignal::StopSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  PW_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  PW_CHECK(signal_fd_ >= 0);
}

StopSignal::~StopSignal() { close(signal_fd_); }

std::string StopSignal::Wait(pid_t parent) {
  const int parent_fd = parent > 0 ? static_cast<int>(syscall(SYS_pidfd_open, parent, 0)) : -1;
  const auto close_parent = absl::MakeCleanup([parent_fd] {
    if (parent_fd >= 0) close(parent_fd);
  });
  // The second test, after the first: a process that is still the parent is the one that the descriptor is of.
  if (parent > 0 && (parent_fd < 0 || getppid() != parent)) return "the parent process has ended";
  pollfd fds[2] = {{signal_fd_, POLLIN, 0}, {parent_fd, POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  if (fds[1].revents != 0) return "the parent process has ended";
  signal_ = Take();
  if (signal_ == 0) return "a signal";
  return absl::StrCat("signal ", signal_ == SIGINT ? "SIGINT" : "SIGTERM");
}

int StopSignal::Take() {
  signalfd_siginfo info;
  return read(signal_fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace pw
