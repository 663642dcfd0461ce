#include "pathways/gang/options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/gang/policies/fifo.h"
#include "pathways/gang/policies/proportional_share.h"
#include "pathways/gang/policies/strict_priority.h"

namespace pw::gang {

std::vector<std::string> PolicyNames() { return {"fifo", "share", "priority"}; }

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const Options& options) {
  if (options.policy == "fifo") return std::make_unique<Fifo>();
  if (options.policy == "share") return std::make_unique<ProportionalShare>();
  if (options.policy == "priority") return std::make_unique<StrictPriority>(options.aging_ns);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no scheduling policy '", options.policy, "'; choose one of ", absl::StrJoin(PolicyNames(), ", ")));
}

}  // namespace pw::gang
