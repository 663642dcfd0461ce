// ArrayMaker: makes arrays from host memory, and arrays that are errors. The commands go out at once, in the client's order; the bytes
// follow when the client has sent them to the controller (HostBufferStore), or go from the client to the hosts by lane (SessionLanes).
//
// Invariant AK-1: a request consumes its host buffers, even if it fails and even if they come later.
// Strand-confined.
#pragma once

#include <cstdint>
#include <vector>

#include "pathways/controller/session/arrays/host_buffer_store.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"

namespace pw::controller {

class ArrayMaker {
 public:
  using ArraySpec = SessionContext::ArraySpec;

  // All must outlive this.
  ArrayMaker(SessionContext* context, HostBufferStore* host_buffers, SessionLanes* lanes)
      : context_(context), fabric_(context->fabric()), host_buffers_(host_buffers), lanes_(lanes) {}

  absl::Status Make(Handle result, const ArraySpec& spec, const std::vector<HostShard>& sources);
  absl::Status MakeError(Handle result, const ArraySpec& spec, absl::Status error);

 private:
  using Record = SessionContext::Record;
  using SpecPtr = SessionContext::SpecPtr;

  absl::Status TryMake(Handle result, const SpecPtr& spec, const std::vector<HostShard>& sources);
  // Checks the sources. `bytes`: gets the size of each; 0 for strings.
  absl::Status CheckSources(const ArraySpec& spec, const std::vector<HostShard>& sources, std::vector<int64_t>* bytes) const;
  void PutSource(const Record& record, const HostShard& source, int64_t bytes);
  absl::Status MakeStrings(Handle result, const SpecPtr& spec, const std::vector<HostShard>& sources);
  void DiscardSources(const std::vector<HostShard>& sources);

  SessionContext* const context_;
  Fabric* const fabric_;
  HostBufferStore* const host_buffers_;
  SessionLanes* const lanes_;
};

}  // namespace pw::controller
