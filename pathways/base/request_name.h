// RequestName: the name of an object that a client's request makes on the hosts: an array, a transfer, a fetch, or an op (the name of a
// command). It has the session, the request's number, and a count: the object's place among those of the request. So a second controller
// that carries out the same request derives the same name, and a host that has the object can say which request made it.
//
// On the wire and in tables a name is one number of at most 63 bits. The names of small calls take few bytes as a varint: the request
// stands in the high bits, and the session and the count have only the bits that they need:
//
//   bit 0 is 0: | request | session: 2 bits | 0 |                                        count 0, session 1 to 3
//   bit 0 is 1: | request | session | count | kind (the count's width): 3 bits | session's width: 2 bits | 1 |
//
// Kind 0 marks *own* names: of objects that no numbered request makes. They are made when hosts come or go, for operators and timers, and for
// clients in the controller's own process, which number no requests. The session counts its own names; their `request` is the number of a
// block of kOwnBlock counts. No second controller can derive them.
//
// Not every name fits: a count of a million arrays leaves less room for the request's number. Number then returns none.
//
// Pure.
//
// Invariants:
//   NM-1  Read gives the name from which Number made a number, so different names have different numbers
//   NM-2  0, and numbers with the highest bit, name nothing
//   NM-3  the numbers of names that differ by k in their count, and are made for the same `last`, differ by k * kStep
#pragma once

#include <cstdint>
#include <optional>

#include "pathways/base/ids.h"

namespace pw {

struct RequestName {
  // The distance between the numbers of neighbours (NM-3).
  static constexpr uint64_t kStep = 64;
  // The most names of one request, and of one block of own names.
  static constexpr uint64_t kMostCounts = uint64_t{1} << 28;
  static constexpr uint64_t kOwnBlock = uint64_t{1} << 23;

  SessionId session;     // never 0
  uint64_t request = 0;  // its number in the session, from 1 on; of own names: the number of a block
  uint64_t count = 0;    // of the object, within the request or the block; from 0 on
  bool own = false;

  // Returns the name's number, whose count is wide enough for `last`. None: a field is too large, or 0 where it must not be.
  // REQUIRES: last >= count.
  std::optional<uint64_t> Number(uint64_t last) const;
  std::optional<uint64_t> Number() const { return Number(count); }
  // Returns the name with this number; none: no name has it.
  static std::optional<RequestName> Read(uint64_t number);
  // Returns whether `number` is a name's, and its count may grow by `more` without being wider (NM-3).
  static bool HasRoom(uint64_t number, uint64_t more);

  friend bool operator==(const RequestName&, const RequestName&) = default;
};

// Returns the count of an op. An odd count marks a *joint* op: its command has parts on many hosts, and the completions of several hosts
// may arrive together (worker.proto, Report).
inline constexpr uint64_t OpCount(uint64_t count, bool joint) { return 2 * count + (joint ? 1 : 0); }
bool IsJointOp(uint64_t op);

// Returns the session of the object that `number` names; 0 if it names nothing.
SessionId SessionOfName(uint64_t number);
// Returns the session of a message that states it only if `name`, a name in the message, does not.
inline SessionId SessionOr(uint64_t stated, uint64_t name) { return stated != 0 ? SessionId(stated) : SessionOfName(name); }

}  // namespace pw
