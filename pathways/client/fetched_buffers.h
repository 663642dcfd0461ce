// FetchedBuffers: the host memory into which a session copies arrays from devices. A copy names a new buffer, which lasts until the
// program deletes it. The program may look a buffer up, or delete it, before its bytes have arrived.
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

  // Adds a buffer without bytes, which Fill will give. ALREADY_EXISTS if `buffer` is 0 or in the table.
  absl::Status Begin(Handle buffer);
  // Gives the buffer its bytes, or an error, which removes it. Answers the lookups that wait for them inside the call.
  void Fill(Handle buffer, const absl::StatusOr<Bytes>& data);
  // Calls `done` with the bytes when they have arrived. NOT_FOUND if the buffer is not in the table.
  void Lookup(Handle buffer, session::ResultCallback<Bytes> done);
  // Removes the buffer, at the latest when its bytes have arrived and lookups that wait for them have their answers. NOT_FOUND: as above.
  absl::Status Delete(Handle buffer);
  // Removes all buffers because the session has ended. Lookups that wait get `error`; later calls get it instead of NOT_FOUND.
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
