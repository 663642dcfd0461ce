#include "pathways/base/process/restarted.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "pathways/base/log.h"

namespace pw {
namespace {

constexpr size_t kMostTold = 4096;  // a pipe takes so much in one piece

int OpenProcess(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

std::string Ended(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return absl::StrCat("ended with status ", WEXITSTATUS(status));
}

class Supervisor {
 public:
  Supervisor(const Restarts& restarts, StopSignal* stop, const RestartedRun& run) : restarts_(restarts), stop_(stop), run_(run) {
    if (restarts_.parent > 0) parent_ = OpenProcess(restarts_.parent);
  }
  ~Supervisor() {
    if (parent_ >= 0) close(parent_);
  }

  int Run() {
    if (restarts_.parent > 0 && (parent_ < 0 || getppid() != restarts_.parent)) return 0;  // as in StopSignal
    for (;;) {
      const absl::StatusOr<pid_t> child = Start();
      if (!child.ok()) {
        PW_LOG_ERROR << child.status().message();
        return 1;
      }
      const int status = AwaitEnd(*child);
      if (const auto code = CodeAfter(*child, status)) return *code;
      if (!Pause()) return 0;
    }
  }

 private:
  // Forks. In the child it runs the program, and does not return.
  absl::StatusOr<pid_t> Start() {
    int told[2];
    if (pipe2(told, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("no pipe: ", std::strerror(errno)));
    const pid_t pid = fork();
    if (pid < 0) {
      close(told[0]), close(told[1]);
      return absl::UnavailableError(absl::StrCat(restarts_.name, " cannot be started: ", std::strerror(errno)));
    }
    if (pid == 0) {
      close(told[0]);
      if (parent_ >= 0) close(parent_);
      // exit: the program may have work that is done at its end.
      std::exit(run_(told_, [out = told[1]](const std::string& text) {
        PW_CHECK(text.size() <= kMostTold);
        if (write(out, text.data(), text.size()) < 0) {
          PW_LOG_WARNING << "the supervisor does not listen: " << std::strerror(errno);
        }
      }));
    }
    close(told[1]);
    from_child_ = told[0];
    return pid;
  }

  // Passes signals on until the child has ended. Returns its wait status.
  int AwaitEnd(pid_t child) {
    const int ended = OpenProcess(child);
    for (;;) {
      pollfd fds[] = {{ended, POLLIN, 0}, {stop_->descriptor(), POLLIN, 0}, {parent_, POLLIN, 0}};
      while (poll(fds, 3, -1) < 0 && errno == EINTR) {
      }
      if (fds[0].revents != 0) break;
      if (fds[1].revents != 0) PassOn(child, stop_->Take());
      if (fds[2].revents != 0) {
        PassOn(child, SIGTERM);
        close(std::exchange(parent_, -1));
      }
    }
    if (ended >= 0) close(ended);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ReadTold();
    return status;
  }

  void PassOn(pid_t child, int number) {
    if (number == 0) return;
    stopping_ = true;
    kill(child, number);
  }

  void ReadTold() {
    char text[kMostTold];
    const ssize_t size = read(from_child_, text, sizeof text);  // the child has ended, so this does not wait
    if (size > 0) told_.assign(text, static_cast<size_t>(size));
    close(from_child_);
  }

  // Returns the supervisor's exit status after this end of the child; none: the next one is to start.
  std::optional<int> CodeAfter(pid_t child, int status) {
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const bool wanted = !WIFSIGNALED(status) && (code == 0 || restarts_.final.contains(code));
    if (wanted || stopping_ || (!WIFSIGNALED(status) && told_.empty())) return code;
    const absl::Time now = absl::Now();
    while (!failures_.empty() && failures_.front() < now - restarts_.within) failures_.pop_front();
    failures_.push_back(now);
    const std::string how = absl::StrCat(restarts_.name, " (process ", child, ") ", Ended(status));
    if (static_cast<int>(failures_.size()) >= restarts_.most_failures) {
      PW_LOG_ERROR << how << ". It has failed " << failures_.size() << " times within " << absl::FormatDuration(restarts_.within)
                   << ", and is not started again";
      return 1;
    }
    pause_ = restarts_.first_pause * (1 << std::min<size_t>(failures_.size() - 1, 10));
    PW_LOG_WARNING << how << ", and is started again in " << absl::FormatDuration(pause_) << " (failure " << failures_.size() << " of "
                   << restarts_.most_failures << " within " << absl::FormatDuration(restarts_.within) << ")";
    return std::nullopt;
  }

  // Returns false if this process is to stop.
  bool Pause() {
    pollfd fds[] = {{stop_->descriptor(), POLLIN, 0}, {parent_, POLLIN, 0}};
    const absl::Time end = absl::Now() + pause_;
    for (;;) {
      const int64_t left = absl::ToInt64Milliseconds(end - absl::Now() + absl::Microseconds(999));
      const int ready = poll(fds, 2, static_cast<int>(std::max<int64_t>(left, 0)));
      if (ready == 0) return true;
      if (ready > 0) return false;
      if (errno != EINTR) return true;
    }
  }

  const Restarts& restarts_;
  StopSignal* const stop_;
  const RestartedRun& run_;
  int parent_ = -1;
  int from_child_ = -1;
  std::string told_;
  bool stopping_ = false;
  std::deque<absl::Time> failures_;
  absl::Duration pause_;
};

}  // namespace

int RunRestarted(const Restarts& restarts, StopSignal* stop, const RestartedRun& run) {
  return Supervisor(restarts, stop, run).Run();
}

}  // namespace pw
