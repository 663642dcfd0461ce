// RestoreParts: the frames by which a client sends all that its session has to another controller (session.proto, Restore).
//
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/client/array_table.h"
#include "pathways/client/compiled_programs.h"
#include "pathways/client/kept_requests.h"
#include "pathways/client/session_slices.h"
#include "pathways/net/resumable/resumable_stream.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

struct RestorePart {
  ::pathways::v1::ClientFrame frame;
  std::vector<Bytes> payload;
};

// `stream`: its messages that are not acknowledged are not settled either; those after `last` have not been begun, and are left out. `awaits`: whether the client still awaits the answer to the request of this
// number. Questions that have been answered are not asked again: what they ask for may be gone.
std::vector<RestorePart> RestorePartsOf(const ArrayTable& arrays, const CompiledPrograms& programs, const SessionSlices& slices,
                                        const KeptRequests& kept, const net::ResumableStream& stream, uint64_t last,
                                        absl::FunctionRef<bool(uint64_t)> awaits);

}  // namespace pw::client
