// Staging: assembles transfers that arrive in chunks, in aligned host memory.
//
// A transfer has an id, a size and an owner. Its chunks and the command that wants it (Expect) may come in either order. A transfer of one
// chunk keeps that chunk's memory. Expect may name the final destination of the bytes; later chunks are then written there directly.
//
// Invariants:
//   SG-1  the chunks of a transfer come in order; a gap fails the transfer and nothing else. Bytes that have come before are dropped: a
//         second controller sends a transfer from its beginning
//   SG-2  memory for incomplete transfers never exceeds the limit, and no user has more than three times what is left of it. So whatever the others
//         do, there is room for some of a user's. A transfer that would have more fails with RESOURCE_EXHAUSTED
//   SG-3  an expected transfer is delivered exactly once, with its bytes or an error
//   SG-4  data of a released owner is dropped, and so are chunks that arrive for it later
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/accounts.h"

namespace pw::worker {

class Staging {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&>;

  // `accounts` tells which sessions are of one user.
  Staging(BlockCache* blocks, int64_t limit_bytes, const Accounts* accounts)
      : blocks_(blocks), limit_bytes_(limit_bytes), accounts_(accounts) {}

  // `source`: the host that sent the chunk; FailSource fails all transfers of a source.
  void AddChunk(const pathways::v1::Chunk& chunk, Bytes payload, HostId source = HostId());
  // `into`: room for the whole transfer, valid until the callback. The delivered bytes lie there, or elsewhere if chunks arrived earlier.
  void Expect(uint64_t transfer, int64_t total_bytes, SessionId session, HostId source, Callback callback,
              uint8_t* into = nullptr);
  // Fails a transfer that will not come. It may be unknown yet; `session` is then its owner.
  void Fail(uint64_t transfer, const absl::Status& status, SessionId session = SessionId());
  // Fails all incomplete transfers of this source.
  void FailSource(HostId source, const absl::Status& status);
  // Fails the transfers that `session` waits for and drops those that have arrived for it.
  void ReleaseOwner(SessionId session, const absl::Status& status);

  // Returns whether a transfer from this source is expected and not complete.
  bool Awaits(HostId source) const;

  // Returns whether something of the transfer has come, or is expected, and it is not delivered.
  bool Has(uint64_t transfer) const { return transfers_.contains(transfer); }

  int64_t staged_bytes() const { return staged_bytes_; }
  size_t transfers() const { return transfers_.size(); }

 private:
  struct Transfer {
    SessionId session;
    HostId source;
    int64_t total = -1;  // unknown yet
    int64_t received = 0;
    int64_t reserved = 0;
    std::string reserved_for;  // the owner, while anything is reserved
    std::optional<AlignedBytes> memory;
    Bytes whole;              // instead of `memory` if one chunk was the whole transfer
    uint8_t* into = nullptr;  // instead of `memory`
    bool complete = false;
    absl::Status status;
    Callback callback;  // null until expected
  };
  void FailIf(absl::FunctionRef<bool(const Transfer&)> which, const absl::Status& status);
  absl::Status Append(Transfer* transfer, const pathways::v1::Chunk& chunk, Bytes payload);
  absl::Status SetTotal(Transfer* transfer, int64_t total);
  absl::Status Reserve(Transfer* transfer);
  void Release(Transfer* transfer);  // what is reserved
  void FreeMemory(Transfer* transfer);
  void Deliver(uint64_t id);
  void Bury(uint64_t id);

  BlockCache* const blocks_;
  const int64_t limit_bytes_;
  const Accounts* const accounts_;
  int64_t staged_bytes_ = 0;
  absl::flat_hash_map<std::string, int64_t> staged_by_owner_;  // without zeros
  absl::flat_hash_map<uint64_t, Transfer> transfers_;
  std::deque<uint64_t> buried_order_;  // the latest transfers that were delivered as failed: their late chunks are dropped
  absl::flat_hash_set<uint64_t> buried_;
};

}  // namespace pw::worker
