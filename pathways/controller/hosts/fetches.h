// Fetches: receives the bytes of shards from hosts, and puts their chunks together in aligned memory. Strand-confined.
//
// The controller knows the number of bytes that it asked for, and refuses any other: a host cannot make it allocate more. A fetch holds the
// request that its name says (settlement.h).
//
// Invariant FE-1: each callback runs exactly once: with the bytes, the host's error, or the error when its host is lost or its
// session ends.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/controller/hosts/pending_replies.h"
#include "pathways/controller/hosts/settlement.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Fetches {
 public:
  using Callback = PendingReplies<Bytes>::Callback;

  // `settlement` must outlive this.
  explicit Fetches(Settlement* settlement) : settlement_(settlement) {}

  // `by_lane`: the host may send the bytes to the client itself, on its lane; then the result is empty.
  void Add(uint64_t id, HostId host, SessionId session, uint64_t expected_bytes, Callback done, bool by_lane = false);
  // REQUIRES: the answer is no error. Fail takes errors.
  void OnFetched(HostId host, const ::pathways::v1::Fetched& fetched, Bytes payload);
  void Fail(HostId host, uint64_t id, const absl::Status& error);
  void OnChunk(HostId host, const ::pathways::v1::Chunk& chunk, const Bytes& payload);
  void FailHost(HostId host, const absl::Status& error);
  void FailSession(SessionId session, const absl::Status& error);
  size_t size() const { return pending_.size(); }

 private:
  struct Assembly {
    HostId host;
    SessionId session;
    uint64_t expected = 0;
    uint64_t received = 0;
    bool by_lane = false;
    bool announced = false;  // Fetched has been received
    std::unique_ptr<AlignedBytes> memory;
    Callback done;
  };
  using Map = absl::flat_hash_map<uint64_t, std::unique_ptr<Assembly>>;
  Map::iterator Find(HostId host, uint64_t id);
  void Finish(Map::iterator it, absl::StatusOr<Bytes> result);
  template <class Predicate>
  void FailWhere(const absl::Status& error, Predicate predicate);

  Settlement* const settlement_;
  Map pending_;
};

}  // namespace pw::controller
