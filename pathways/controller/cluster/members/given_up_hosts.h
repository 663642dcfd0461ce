// GivenUpHosts: the last hosts that were lost, so that a worker that comes back too late learns why. Pure.
//
// Invariants:
//   GU-1  a reason is told only for the host's key
//   GU-2  at most kMost hosts are remembered: the oldest is forgotten first
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "pathways/base/ids.h"
#include "pathways/base/secret.h"

namespace pw::controller {

class GivenUpHosts {
 public:
  static constexpr size_t kMost = 1000;

  // `key`: the one of the host's Welcome.
  void Add(HostId host, std::string key, std::string reason) {
    if (hosts_.size() == kMost) hosts_.pop_front();
    hosts_.push_back({host, std::move(key), std::move(reason)});
  }
  std::optional<std::string> ReasonFor(HostId host, absl::string_view key) const {
    for (const Host& one : hosts_) {
      if (one.host == host && SameSecret(key, one.key)) return one.reason;
    }
    return std::nullopt;
  }

 private:
  struct Host {
    HostId host;
    std::string key;
    std::string reason;
  };
  std::deque<Host> hosts_;  // the oldest first
};

}  // namespace pw::controller
