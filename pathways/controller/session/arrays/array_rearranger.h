// ArrayRearranger: makes arrays from the shards of existing ones: assembles, disassembles, remaps and bitcasts them. No data is copied,
// even if the client asks for a copy. A donated input's handle is deleted. Strand-confined.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/controller/session/context/session_context.h"

namespace pw::controller {

class ArrayRearranger {
 public:
  using ArraySpec = SessionContext::ArraySpec;
  using Arrays = SessionContext::Arrays;
  using SpecPtr = SessionContext::SpecPtr;

  // `context` must outlive this.
  explicit ArrayRearranger(SessionContext* context) : context_(context), fabric_(context->fabric()) {}

  // These are the methods of Session.
  absl::Status Assemble(Handle result, const ArraySpec& spec, Arrays singles, CopySemantics semantics);
  absl::Status Disassemble(Arrays results, Handle array, CopySemantics semantics);
  absl::Status FullyReplicatedShard(Handle result, Handle array, CopySemantics semantics);
  absl::Status Remap(Arrays results, Arrays arrays, const buffers::RemapPlan& plan, absl::Span<const ArraySpec> specs,
                     CopySemantics semantics);
  absl::Status Bitcast(Arrays results, Arrays arrays, absl::Span<const ArraySpec> specs, CopySemantics semantics);

  // Returns an array of these shards, in order, which may be another session's.
  ArrayEntry Alias(const SpecPtr& spec, absl::Span<const ShardPick> picks);

 private:
  using Record = SessionContext::Record;

  absl::Status TryAssemble(Handle result, const SpecPtr& spec, Arrays singles);
  absl::Status TryDisassemble(Arrays results, Handle array);
  absl::Status TryRemap(Arrays results, Arrays arrays, const buffers::RemapPlan& plan, absl::Span<const SpecPtr> specs);
  absl::Status TryBitcast(Arrays results, Arrays arrays, absl::Span<const SpecPtr> specs);
  // Adds an array of these shards.
  void InsertAliases(Handle result, const SpecPtr& spec, absl::Span<const ShardPick> picks);

  SessionContext* const context_;
  Fabric* const fabric_;
};

}  // namespace pw::controller
