// FetchesAhead: fetches small results together with the call that computes them, if the client has read them after its last calls.
//
// A program that reads a result of each call (a token, a loss) waits for two trips: of the call, and of the request to read. The second one
// leads from here to the host that has the bytes, and back. It need not wait for the request: the bytes of an output that was read after
// the last calls are asked for as soon as the call is under way. So they come together with the news that the call has ended, and the
// request to read is answered on the spot. Only outputs of at most kMostBytes that one device holds whole are fetched so.
//
// Invariants:
//   FA-1  the client reads the same bytes and errors as without this class
//   FA-2  at most kMostUnread fetches of an output that the client no longer reads are under way or kept
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

  // The executable runs, and makes these arrays.
  void OnRun(const SessionRef& session, Handle executable, absl::Span<const Handle> results);
  // `shard` holds what `array` holds.
  void OnReplicatedShard(Handle shard, Handle array);
  // The client has deleted or destructed them.
  void OnArraysGone(absl::Span<const Handle> arrays);
  void OnExecutableGone(Handle executable) { outputs_.erase(executable); }

  // As the methods of Session. They return false, and leave `done` alone, if the session has to do it.
  bool CopyToHostBuffer(session::Session& session, Handle array, Handle host_buffer, const Strides& strides, session::StatusCallback& done);
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
  using Buffers = absl::flat_hash_map<Handle, std::shared_ptr<Fetch>>;  // host buffers, and what fills them
  struct Run {
    Handle executable = 0;
    std::vector<Handle> results;
  };

  // The client reads an array that is not in made_. If an executable made it, its output is watched from now on.
  void Watch(session::Session& session, Handle array, const Strides& strides);

  static std::shared_ptr<Fetch> Ask(const SessionRef& session, Handle array, const Strides& strides);

  std::deque<Run> runs_;                              // the last ones
  std::deque<std::pair<Handle, Handle>> replicated_;  // the last shards, each with its array
  absl::flat_hash_map<Handle, std::vector<std::shared_ptr<Output>>> outputs_;  // by executable
  absl::flat_hash_map<Handle, std::shared_ptr<Made>> made_;                    // by array
  std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();             // callbacks, which may outlive this object, hold it weakly
};

}  // namespace pw::frontend
