// FetchesAhead: fetches small outputs of an executable as soon as it is called, if the client read them after its last calls.
// ClientSession has one.
//
// A client that reads an output of each call (a token, a loss) waits for two round trips. One is that of the call. The other is
// that of the read, to the host that has the bytes. If the client has read an output after each of the last kReadsInARow calls of
// its executable, FetchesAhead requests the bytes when the next call begins. They come with the end of the call, and the client's
// read is answered at once. Only outputs of at most kMostBytes that one device holds whole are fetched ahead.
//
// Invariants:
//   FA-1  the client reads the same bytes and errors as without this class
//   FA-2  of an output that the client no longer reads, at most kMostUnread fetches are under way or kept
// Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "pathways/session/session.h"

namespace pw::frontend {

class FetchesAhead {
 public:
  using Handle = session::Handle;
  using SessionRef = std::shared_ptr<session::Session>;
  using Strides = std::optional<buffers::Dims>;

  static constexpr int64_t kMostBytes = 4096;
  static constexpr int kMostUnread = 16;
  static constexpr int kReadsInARow = 2;  // before the first fetch ahead

  // A call of the executable has begun, and makes these arrays: fetches those that the client will probably read.
  void OnRun(const SessionRef& session, Handle executable, absl::Span<const Handle> results);
  // The array `shard` is one shard of the replicated `array`: a read of it counts as a read of `array`.
  void OnReplicatedShard(Handle shard, Handle array);
  // The client has deleted or destructed them.
  void OnArraysGone(absl::Span<const Handle> arrays);
  void OnExecutableGone(Handle executable) { outputs_.erase(executable); }

  // Like the methods of Session, for arrays fetched ahead. For others they return false and leave `done` to the session.
  bool CopyToHostBuffer(session::Session& session, Handle array, Handle host_buffer, const Strides& strides,
                        session::StatusCallback& done);
  bool LookupHostBuffer(Handle host_buffer, session::ResultCallback<Bytes>& done);
  bool DeleteHostBuffer(Handle host_buffer) { return buffers_->erase(host_buffer) > 0; }

 private:
  // An output of an executable that the client has read.
  struct Output {
    size_t index = 0;
    Strides strides;  // of the last read
    int reads = 1;    // runs in a row whose output was read
    int unread = 0;   // live arrays of this output that were not read yet
  };
  struct Fetch {
    std::optional<absl::StatusOr<Bytes>> data;
    std::vector<session::ResultCallback<Bytes>> waiting;
    void Complete(absl::StatusOr<Bytes> bytes);
    void Await(session::ResultCallback<Bytes> done);
  };
  // The array that one run made of an Output.
  struct Made {
    explicit Made(std::shared_ptr<Output> of) : output(std::move(of)) { ++output->unread; }
    ~Made();
    void OnRead(const Strides& strides);
    const std::shared_ptr<Output> output;
    bool read = false;
    Strides strides;               // of `fetch`
    std::shared_ptr<Fetch> fetch;  // null: not fetched ahead
  };
  using Buffers = absl::flat_hash_map<Handle, std::shared_ptr<Fetch>>;  // host buffers, and the fetches that fill them
  struct Run {
    Handle executable = 0;
    std::vector<Handle> results;
  };

  // The client reads an array that is not in made_. If an executable made it, its output is watched from now on.
  void Watch(session::Session& session, Handle array, const Strides& strides);

  static std::shared_ptr<Fetch> Ask(const SessionRef& session, Handle array, const Strides& strides);

  std::deque<Run> runs_;                                                       // the last ones
  std::deque<std::pair<Handle, Handle>> replicated_;                           // the last shards, each with its array
  absl::flat_hash_map<Handle, std::vector<std::shared_ptr<Output>>> outputs_;  // by executable
  absl::flat_hash_map<Handle, std::shared_ptr<Made>> made_;                    // by array
  std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();  // callbacks, which may outlive this object, hold it weakly
};

}  // namespace pw::frontend
