// Expectations: shards of which it is known where they will be, but not yet what makes them.
//
// What reads them waits as for any pending shard. When the controller knows, it names a source: the shards become what those are,
// by taking over their buffers; where somebody else has a use for these (another name, a parked reader), by sharing them. Only what
// lies elsewhere is copied, and what a command is about to overwrite.
//
// Invariants:
//   XP-1  an expected shard settles once: as its source does, or with an error when it is fulfilled with one or its session ends
//   XP-2  fulfilling does not need the array's name: readers may still wait when that has been released
//   XP-3  who waits for memory waits for an expected array only once what makes it runs outside of the hosts: that may be done
//         before, but not if it needs something of a host that waits for memory
// Lives on the worker's strand.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/worker/core.h"

namespace pw::worker {

class Expectations {
 public:
  explicit Expectations(Core* core) : core_(core) {}

  void Expect(const pathways::v1::Expect& command);
  void Fulfil(const pathways::v1::Fulfil& command);
  void ReleaseOwner(SessionId session);

 private:
  struct Target {
    int index = 0;
    ShardRef shard;
    std::string memory_kind;
  };
  struct Expected {
    SessionId session;
    std::vector<Target> targets;
    bool under_way = false;  // and counted by the memory gate
  };
  using Map = absl::flat_hash_map<ArrayId, Expected>;
  struct Pending;

  void Begin(ArrayId array);
  Expected Take(Map::iterator it);
  Hazards::Outcome Become(const Target& target, const ShardRef& source, int other_readers);
  void Copy(const Target& target, const ShardRef& source);

  Core* const core_;
  Map expected_;
};

}  // namespace pw::worker
