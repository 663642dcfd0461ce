// UsageMeter: sums the usage of each user's sessions, until it is taken and stored. Pure.
//
// Device time may be added after a session's end, because devices finish their launches. So the meter remembers the session's
// user until two takes have found no new usage.
//
// Invariant UM-1: usage added for an opened session is in exactly one Take. Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pathways/base/ids.h"

namespace pw::usage {

struct Usage {
  double device_seconds = 0;  // summed over devices
  int64_t computations = 0;
  double compile_seconds = 0;     // from a program's arrival until its hosts have it; cached programs take little
  double array_byte_seconds = 0;  // bytes of arrays, for as long as they were held
  int64_t sessions = 0;           // number of sessions that began

  Usage& operator+=(const Usage& other);
  bool empty() const {
    return device_seconds == 0 && computations == 0 && compile_seconds == 0 && array_byte_seconds == 0 && sessions == 0;
  }
};

struct Entry {
  std::string user;
  Usage used;
};

// Stores entries; never blocks.
using Store = std::function<void(std::vector<Entry> entries)>;

class UsageMeter {
 public:
  void Open(SessionId session, std::string user);
  void End(SessionId session);
  // Adds to an open session, or to one that has ended lately. Ignores other sessions.
  void Add(SessionId session, const Usage& used);
  // Returns the usage added since the last call, by user.
  std::vector<Entry> Take();

 private:
  struct Session {
    std::string user;
    Usage used;
    bool ended = false;
    int quiet = 0;  // consecutive takes without new usage since its end
  };
  std::map<SessionId, Session> sessions_;
};

}  // namespace pw::usage
