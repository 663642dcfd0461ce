// PendingReads: the requests of a session that are answered when certain arrays have settled (are ready or errors): WhenReady,
// reads, loads from files. A request that will read its arrays keeps them alive. One that only waits does not: a program that runs ahead drops
// arrays before they are ready, and their memory is needed. An array may settle after the session has ended, so its waiter holds a weak
// pointer to the requests. Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/session.h"

namespace pw::controller {

class PendingReads {
 public:
  using Record = buffers::LogicalArray::Ref;

  // Calls `done` once: when all arrays have settled (maybe inside this call), with the first error in their order; or in End.
  void Hold(std::vector<Record> arrays, session::StatusCallback done);
  // The same, and the arrays' data may be freed meanwhile.
  void Watch(const std::vector<Record>& arrays, session::StatusCallback done);
  // Answers all waiting requests with the error. Called at the end of the session.
  void End(const absl::Status& error);

 private:
  struct Read {
    std::vector<Record> arrays;
    std::vector<buffers::LogicalArray::Watch> watches;
    session::StatusCallback done;
  };
  using Reads = std::map<uint64_t, Read>;

  void Add(absl::Span<const Record> arrays, Read read);

  uint64_t next_ = 1;
  std::shared_ptr<Reads> reads_ = std::make_shared<Reads>();
};

}  // namespace pw::controller
