// FetchedBuffers: the host buffers that copies of arrays fill, until they are deleted. A buffer may be looked up, and deleted,
// before its bytes have arrived.
//
// Invariant FB-1: each lookup is answered once: by Fill, by End, or at once. Strand-confined.
#pragma once

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/executor.h"
#include "pathways/session/session.h"

namespace pw::client {

class FetchedBuffers {
 public:
  using Handle = session::Handle;

  // `executor` runs the answers of Lookup and End, never inside these calls.
  explicit FetchedBuffers(Executor* executor) : executor_(executor) {}

  // Adds a buffer that Fill will fill. ALREADY_EXISTS if it is 0 or known.
  absl::Status Begin(Handle buffer);
  // Gives the buffer its bytes, and answers the lookups that wait for them inside the call. An error ends the buffer.
  void Fill(Handle buffer, const absl::StatusOr<Bytes>& data);
  // Answers the bytes when they are there. NOT_FOUND if no copy has named the buffer.
  void Lookup(Handle buffer, session::ResultCallback<Bytes> done);
  absl::Status Delete(Handle buffer);
  // Forgets all buffers. Lookups that wait get the error, which is not OK, and so does every later use of an unknown buffer.
  void End(const absl::Status& error);

 private:
  struct Buffer {
    std::optional<absl::StatusOr<Bytes>> data;
    bool deleted = false;  // before it was filled
    std::vector<session::ResultCallback<Bytes>> waiting;
  };
  absl::Status Unknown(Handle buffer) const;
  void Answer(session::ResultCallback<Bytes> done, absl::StatusOr<Bytes> data);

  Executor* const executor_;
  absl::Status ended_;
  absl::flat_hash_map<Handle, Buffer> buffers_;
};

}  // namespace pw::client
