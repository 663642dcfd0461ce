// PendingReads: the requests of a session that are answered when certain arrays have settled (are ready or errors): WhenReady,
// reads, loads from files. A waiting request keeps its arrays alive. An array may settle after the session has ended, so its
// waiter holds a weak pointer to the requests. Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "pathways/buffers/logical_array.h"
#include "pathways/controller/session.h"

namespace pw::controller {

class PendingReads {
 public:
  using Record = buffers::LogicalArray::Ref;

  // Calls `done` once: when all arrays have settled (maybe inside this call), with the first error in their order; or in End.
  void Hold(std::vector<Record> arrays, session::StatusCallback done);
  // Answers all waiting requests with the error. Called at the end of the session.
  void End(const absl::Status& error);

 private:
  struct Read {
    std::vector<Record> arrays;
    session::StatusCallback done;
  };
  using Reads = std::map<uint64_t, Read>;

  uint64_t next_ = 1;
  std::shared_ptr<Reads> reads_ = std::make_shared<Reads>();
};

}  // namespace pw::controller
