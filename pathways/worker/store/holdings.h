// Holdings: what a Worker leaves to the next one when its controller has ended (worker.proto, Controllers that return): the arrays of sessions that
// may come back, and the names and answers of their commands that have ended.
//
// A command that has not ended leaves nothing: the next controller sends it again, because its request is not settled. So what it would read must be
// there under its names, although they may have been released since (ProgramExecutor::Unbegin).
#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/worker/store/had_commands.h"
#include "pathways/worker/store/memory_ledger.h"
#include "pathways/worker/store/object_store.h"
#include "pathways/worker/store/outbox.h"
#include "pathways/worker/store/shard.h"

namespace pw::worker {

struct Holdings {
  struct Array {
    ArrayId id;
    SessionId session;
    absl::Status error;  // it is poisoned
    std::vector<std::pair<int, ShardRef>> shards = {};
  };
  std::shared_ptr<MemoryLedger> ledger;
  HadCommands had;
  std::vector<Array> arrays;
  std::set<SessionId> cut;  // of which a computation has begun and not ended
};

// Takes the settled shards of these sessions out of a store that is dropped afterwards.
void TakeArrays(ObjectStore& store, const std::set<SessionId>& sessions, Holdings* holdings);
// Puts them into the store of the next Worker.
void BindArrays(const Holdings& holdings, ObjectStore* store);
// Adds the events that report them.
void Report(const Holdings& holdings, Outbox* outbox);

}  // namespace pw::worker
