// NewSession: the parameters with which a session is opened. UserUse: a user's open sessions and device time, for quotas.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pathways/gang/share.h"

namespace pw::session {

struct NewSession {           // parameters of OpenSession
  std::string description;    // for display: "jax client at 127.0.0.1:3312"
  gang::ShareChange share;    // of the devices' time, if not the default
  bool observer = false;      // sends operators' requests; not counted as a client
  std::string user = {};      // the owner; empty: a process of the controller's user, or unknown
  bool is_operator = false;   // its files are those of the hosts' own user
  bool ends_on_hang = false;  // when one of its computations hangs
  uint64_t restored = 0;      // not 0: the number of a session of the controller before, which goes on (restoration.h)
  // Of a user with a quota: `client` expires when the client no longer waits for the session. `tell` takes a line for the user: why the
  // session waits, or what it does not get.
  std::optional<std::weak_ptr<void>> client = {};  // none: it waits for ever
  std::function<void(const std::string&)> tell = {};

  bool limited() const { return !user.empty() && !is_operator && !observer; }  // by the user's quota
};

struct UserUse {
  std::string user;
  int64_t sessions = 0;       // open
  double device_seconds = 0;  // today
  int64_t devices = 0;        // in use
  // As hosts have reported, if they have: bytes of arrays on the device where the user has most, of arrays on their way on such a host, and
  // Python processes there.
  std::optional<int64_t> device_bytes = {}, host_bytes = {}, host_processes = {};
};

}  // namespace pw::session
