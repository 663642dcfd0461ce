// RequestName: the name of an object that a request of a client makes on the hosts: an array, a transfer, a fetch, or an op (the number of
// a command). It says which session's request made it, and which of the request's objects it is. So a second controller that carries out the
// same request derives the same name, and a host that has the object can say which request made it.
//
// A name is one number of at most 63 bits on the wire and in tables. The number is written so that the names of small calls take few
// bytes as a varint: the request stands in the high bits, and the other fields are as wide as they have to be:
//
//   bit 0 is 0: | request | session: 2 bits | 0 |                                        count 0, session 1 to 3
//   bit 0 is 1: | request | session | count | kind: 3 bits | session's width: 2 bits | 1 |
//
// Own names are of kind 0. They are not made by a request with a number, but by events that no client's stream of requests determines:
// hosts that come and go, operators, timers; and by clients in the controller's process, which end with it and number nothing. They are
// counted by the session, `request` continues the count, and no second controller can derive them.
//
// Not every name fits: a count of a million arrays leaves less room for the request's number. Number says so; nothing is cut off.
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
  // The number of names of one request, and of a block of own names.
  static constexpr uint64_t kMostCounts = uint64_t{1} << 28;
  static constexpr uint64_t kOwnBlock = uint64_t{1} << 23;

  SessionId session;     // never 0
  uint64_t request = 0;  // as the client numbers them, from 1 on; of own names: the number of a block
  uint64_t count = 0;    // within the request, or the block
  bool own = false;

  // Returns the name's number, with room for counts up to `last`. None: a field is too large, or 0 where it must not be.
  // REQUIRES: last >= count.
  std::optional<uint64_t> Number(uint64_t last) const;
  std::optional<uint64_t> Number() const { return Number(count); }
  // Returns the name with this number; none: no name has it.
  static std::optional<RequestName> Read(uint64_t number);
  // Returns whether `number` is a name's, with room for counts that are up to `more` greater (NM-3).
  static bool HasRoom(uint64_t number, uint64_t more);

  friend bool operator==(const RequestName&, const RequestName&) = default;
};

// The op of a command with parts on many hosts, whose completion may arrive together with those of other hosts (worker.proto, Report), has
// an odd count.
inline constexpr uint64_t OpCount(uint64_t count, bool joint) { return 2 * count + (joint ? 1 : 0); }
bool IsJointOp(uint64_t op);

// Returns the session of the object that `number` names; 0 if it names nothing.
SessionId SessionOfName(uint64_t number);
// Returns the session of a message that states it only if `name`, a name in the message, does not.
inline SessionId SessionOr(uint64_t stated, uint64_t name) { return stated != 0 ? SessionId(stated) : SessionOfName(name); }

}  // namespace pw
