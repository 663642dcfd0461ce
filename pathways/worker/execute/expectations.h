// Expectations: shards whose location is known before their producer is.
//
// Readers wait for an expected shard as for any pending one. When the producer is known, the controller names a source array (Fulfil). Each
// expected shard then takes over its source's buffer, or shares it if the source has other users (another name, a parked reader). It copies
// only if the source is elsewhere, or a command is about to overwrite it.
//
// Invariants:
//   XP-1  an expected shard settles once: as its source does, or with an error if Fulfil brings one or its session ends
//   XP-2  Fulfil works without the array's name: readers may still wait after the name has been released
//   XP-3  a command that waits for memory waits for an expected array only once its producer runs outside the hosts (`under_way`). Such a
//         producer may end and free memory; one that needs a host that itself waits for memory may not
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"

namespace pw::worker {

class Expectations {
 public:
  Expectations(WorkerContext* context, DeviceArrays* arrays) : context_(context), arrays_(arrays) {}

  void Expect(const pathways::v1::Expect& command);
  void Fulfil(const pathways::v1::Fulfil& command);
  // Like Fulfil, for the host's own commands: without an op. `done` is called once, with the error of the expected array if it has one.
  void Fulfil(const pathways::v1::Fulfil& command, std::function<void(const absl::Status&)> done);
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
    bool under_way = false;  // the producer runs; counted as activity by the memory gate
  };
  using Map = absl::flat_hash_map<ArrayId, Expected>;
  struct Pending;

  void Begin(ArrayId array);
  Expected Take(Map::iterator it);
  Hazards::Outcome Become(const Target& target, const ShardRef& source, int other_readers);
  void Copy(const Target& target, const ShardRef& source);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  Map expected_;
};

}  // namespace pw::worker
