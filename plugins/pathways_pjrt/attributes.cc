#include "plugins/pathways_pjrt/attributes.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "pathways/program/stablehlo_version.h"
#include "plugins/c_table/named_values.h"

namespace pw::pathways_pjrt {
namespace {

// Hosts may keep pointers to the attributes, so earlier ones are never freed.
std::atomic<const c_table::NamedValues*>& Current() {
  static std::atomic<const c_table::NamedValues*> current = new c_table::NamedValues;
  return current;
}

}  // namespace

void SetAttributes(const session::ClusterInfo& cluster, SessionId session, uint64_t number) {
  auto* values = new c_table::NamedValues;
  values->Add("pathways_client", static_cast<int64_t>(session.v));
  values->Add("pathways_number", static_cast<int64_t>(number));
  values->Add("supports_executable_serialization", false);
  values->Add("serialize_with_sdy", true);
  if (std::vector<int64_t> version = program::VersionNumbers(cluster.stablehlo_version); !version.empty())
    values->Add("stablehlo_current_version", std::move(version));
  if (int64_t version; absl::SimpleAtoi(cluster.xla_version, &version)) values->Add("xla_version", version);
  Current().store(values);
}

PJRT_Error* Attributes(PJRT_Plugin_Attributes_Args* args) {
  const c_table::NamedValues* values = Current().load();
  args->attributes = values->data();
  args->num_attributes = values->size();
  return nullptr;
}

}  // namespace pw::pathways_pjrt
