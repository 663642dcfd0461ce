// Restoration: makes a session of a controller that has ended once more, from what its client and the hosts have kept (session.proto, Controllers
// that return). ServedSession drives it. Strand-confined.
//
//   OpenRestored (Cluster) ── RestoreArrays ── executables are compiled, requests that are not settled are carried out ── Finish
//
// Invariant RR-1: nothing that is restored sends a command to a host. Only the requests that are carried out do, and Finish, which frees
// what hosts have kept and the session does not have.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/session/basics.h"

namespace pw::session {

struct RestoredSlices;  // restored_slices.h

struct RestoredArray {
  Handle handle = 0;
  std::shared_ptr<const buffers::ArraySpec> spec;  // null: not known
  uint64_t name = 0;                               // by which hosts know it; 0: none
  absl::Status error = {};                         // not OK: it is this error, and has no name
  bool deleted = false;                            // only the handle is left
};

// Requests whose work has ended and whose answers the client has.
struct SettledNews {
  std::vector<uint64_t> ranges;  // the first and the last of each
  std::shared_ptr<void> known;   // dropped when the client knows of them
};

class Restoration {
 public:
  virtual ~Restoration() = default;

  // --- while the session goes on ---
  // The client keeps requests until it is told that they are settled: hosts are not told before.
  virtual void AwaitClient() = 0;
  // The work of all requests up to this one has ended, and their answers are acknowledged.
  virtual uint64_t done_up_to() const = 0;
  // Returns how many settled requests the client has to be told of.
  virtual size_t untold() const = 0;
  virtual SettledNews TakeSettled() = 0;
  // Returns how many requests are not settled, or not known by the client to be.
  virtual size_t unsettled() const = 0;
  // Returns the name by which hosts know the array; none: it is an error, deleted, or unknown.
  virtual std::optional<uint64_t> NameOf(Handle array) = 0;

  // --- while it is restored ---
  // Makes the arrays. Those that a host should have, and does not, are errors.
  virtual absl::Status RestoreArrays(absl::Span<const RestoredArray> arrays) = 0;
  // Returns an error if a program of many nodes has parts that cannot be restored.
  virtual absl::Status CheckManyNodes(const Bytes& program) const = 0;
  // Returns an executable that cannot run: these are its devices, and this is why.
  virtual Handle AddUnusable(const std::vector<DeviceId>& devices, absl::Status why) = 0;
  // Returns whether all devices are those of one host.
  virtual bool OnOneHost() const = 0;
  // The requests up to `last` are carried out now (`numbers`), or were settled.
  virtual void Finish(absl::Span<const uint64_t> numbers, uint64_t last) = 0;
};

}  // namespace pw::session
