// ArrayCopier: copies arrays to other devices, memories or shardings. The data travels directly between the hosts. A copy to the place
// where an array is already shares its record, unless the client asks for a copy. Strand-confined.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/buffers/reshard_plan.h"
#include "pathways/controller/session/context/session_context.h"

namespace pw::controller {

class ArrayCopier {
 public:
  using ArraySpec = SessionContext::ArraySpec;
  using Arrays = SessionContext::Arrays;
  using SpecPtr = SessionContext::SpecPtr;

  // `context` must outlive this.
  explicit ArrayCopier(SessionContext* context) : context_(context), fabric_(context->fabric()) {}

  // These are the methods of Session.
  absl::Status Copy(Arrays results, Arrays arrays, const std::optional<std::vector<DeviceId>>& devices,
                    const std::optional<std::string>& memory_kind, CopySemantics semantics);
  absl::Status Reshard(Arrays results, Arrays arrays, absl::Span<const ArraySpec> specs, CopySemantics semantics);

  // Adds one array with the contents of `source`. REQUIRES: `source` is no error, and has the type and shape of `spec`.
  absl::Status ReshardOne(Handle result, const ArrayEntry& source, const SpecPtr& spec, CopySemantics semantics);
  // Returns the most names that one array of a request may need, for any state of its source. `pieces`: the most that its plan can have.
  static NameNeed NeedOf(uint64_t pieces);

 private:
  using Record = SessionContext::Record;

  absl::StatusOr<SpecPtr> CopySpec(const ArrayEntry& source, const std::optional<std::vector<DeviceId>>& devices,
                                   const std::optional<std::string>& memory_kind) const;
  bool SamePlacement(const buffers::Sharding& a, const buffers::Sharding& b) const;
  void Move(Handle result, const ArrayEntry& source, const SpecPtr& spec, const buffers::ReshardPlan& plan);
  absl::StatusOr<StringCells> ReshardCells(const ArrayEntry& source, const ArraySpec& spec) const;

  SessionContext* const context_;
  Fabric* const fabric_;
};

}  // namespace pw::controller
