// RunRestarted: runs the rest of a program in a child process, and starts it again when that dies. This process, the supervisor, only waits.
//
//   supervisor ── fork ──► child: run(told by the one before, tell) ── ends ──► supervisor: again, after a pause, or the end
//
// A child by fork and not by exec, so the supervisor needs no command line. It keeps one text for the children: each gets what
// the last one has told, such as the addresses on which it listens.
//
// What follows the end of a child:
//   - status 0, or one that `final` names: it wanted to end. The supervisor ends with the same status
//   - any status, before a child has told anything: nothing was served, and another try would not help (bad flags). The same
//   - a signal, or another status: it has failed. The next one starts after a pause, which doubles with each failure. After
//     `most_failures` within `within` the supervisor gives up, with status 1 and the reason in the log
// SIGTERM and SIGINT are passed on to the child; its end is then the supervisor's, too. A supervisor that is killed does not pass
// that on: the child watches it (StopSignal::Wait).
//
// Call it while this process has one thread: only that one is in the child.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/process/stop_signal.h"

namespace pw {

struct Restarts {
  std::string name;                                // of the child, for the log
  std::set<int> final = {};                        // exit statuses
  int most_failures = 5;
  absl::Duration within = absl::Seconds(60);
  absl::Duration first_pause = absl::Milliseconds(100);
  pid_t parent = 0;                                // whose end is passed on to the child as SIGTERM; 0: nobody's
};

// Runs in the child; returns its exit status. `told`: by the last child that has told something; empty: none has. `tell` takes at most 4096 bytes.
using RestartedRun = std::function<int(const std::string& told, const std::function<void(const std::string&)>& tell)>;

// Returns the exit status of the supervisor. In a child it does not return.
int RunRestarted(const Restarts& restarts, StopSignal* stop, const RestartedRun& run);

}  // namespace pw
