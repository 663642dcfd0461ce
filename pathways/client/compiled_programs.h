// CompiledPrograms: the requests that have compiled a session's executables, with the programs, so that another controller can load them (session.proto,
// Controllers that return). Dropped ones are remembered until all requests before that are settled: those may run them.
//
// Memory. At most kMostBytes of programs are kept. Until those beyond are dropped, no other controller can restore the session.
//
// Pure. Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

class CompiledPrograms {
 public:
  using Handle = session::Handle;
  static constexpr size_t kMostBytes = size_t{512} << 20;

  struct Entry {
    uint64_t number = 0;  // of the request that has compiled it
    ::pathways::v1::SessionRequest request;
    Bytes program;
    uint64_t dropped_by = 0;  // a request; 0: none
    bool lost = false;        // the program is not kept
  };

  void Add(Handle handle, uint64_t number, ::pathways::v1::SessionRequest request, Bytes program) {
    Entry entry{number, std::move(request), std::move(program)};
    entry.lost = bytes_ + entry.program.size() > kMostBytes;
    if (entry.lost) {
      entry.program = Bytes();
      ++lost_;
    }
    bytes_ += entry.program.size();
    Erase(handle);
    entries_.emplace(handle, std::move(entry));
  }
  void Drop(Handle handle, uint64_t request) {
    const auto entry = entries_.find(handle);
    if (entry == entries_.end()) return;
    entry->second.dropped_by = request;
    dropped_.emplace(request, handle);
  }
  // All requests up to this one are settled.
  void OnSettled(uint64_t up_to) {
    while (!dropped_.empty() && dropped_.begin()->first <= up_to) {
      Erase(dropped_.begin()->second);
      dropped_.erase(dropped_.begin());
    }
  }
  // Returns whether it is a program of many nodes: only the controller knows the names of its results.
  bool HasManyNodes(Handle handle) const {
    const auto entry = entries_.find(handle);
    return entry != entries_.end() && entry->second.request.compile().format() == session::kManyNodesFormat;
  }
  size_t lost() const { return lost_; }
  size_t bytes() const { return bytes_; }
  void ForEach(absl::FunctionRef<void(Handle, const Entry&)> visit) const {
    for (const auto& [handle, entry] : entries_) visit(handle, entry);
  }

 private:
  void Erase(Handle handle) {
    const auto entry = entries_.find(handle);
    if (entry == entries_.end()) return;
    bytes_ -= entry->second.program.size();
    if (entry->second.lost) --lost_;
    entries_.erase(entry);
  }

  std::map<Handle, Entry> entries_;
  std::multimap<uint64_t, Handle> dropped_;  // by the request that has dropped it
  size_t bytes_ = 0;
  size_t lost_ = 0;
};

}  // namespace pw::client
