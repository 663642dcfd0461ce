// PendingReads: requests that wait until arrays have settled, which they hold meanwhile. Arrays may settle when the session is gone, so they
// hold the requests weakly. Strand-confined.
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

  // `done` runs once, when the arrays have settled, maybe inside the call, or in End.
  void Hold(std::vector<Record> arrays, session::StatusCallback done);
  // Answers all requests with the error.
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
