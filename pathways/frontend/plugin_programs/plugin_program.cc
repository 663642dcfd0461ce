#include "pathways/frontend/plugin_programs/plugin_program.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/plugin_programs/host_memory.h"
#include "pathways/frontend/plugin_programs/persistence.h"
#include "pathways/frontend/plugin_programs/profile.h"
#include "pathways/frontend/plugin_programs/question.h"
#include "pathways/frontend/plugin_programs/reshard.h"
#include "pathways/session/questions.h"

namespace pw::frontend {
namespace {

struct ProgramKind {
  absl::string_view key;
  absl::StatusOr<std::shared_ptr<PluginExecutable>> (*make)(const JsonObject& request);
};

constexpr char kBad[] = "Bad PluginProgram: ";

constexpr ProgramKind kKinds[] = {
    {"reshardRequest", MakeReshardProgram},
    {"bulk_persistence_write_request", MakeWriteProgram},
    {"bulk_persistence_read_request", MakeReadProgram},
    {"profileRequest", MakeProfileProgram},
    {"hostMemoryRequest", MakeHostMemoryProgram},
};

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakePluginExecutable(absl::string_view json) {
  const absl::StatusOr<JsonObject> parsed = ParseJson(json);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat(kBad, parsed.status().message()));
  const JsonObject& object = *parsed;
  if (object.fields_size() != 1)
    return absl::InvalidArgumentError(absl::StrCat(kBad, "it must have one key, the kind of request"));
  const std::string key = object.fields().begin()->first;
  if (session::IsQuestion(key)) {
    PW_ASSIGN_OR_RETURN(JsonObject request, ObjectField(object, key));
    return MakeQuestion(key, std::move(request));
  }
  for (const ProgramKind& kind : kKinds) {
    if (kind.key != key) continue;
    PW_ASSIGN_OR_RETURN(JsonObject request, ObjectField(object, key));
    absl::StatusOr<std::shared_ptr<PluginExecutable>> made = kind.make(request);
    if (!absl::IsInvalidArgument(made.status()) || absl::StartsWith(made.status().message(), kBad)) return made;
    return absl::InvalidArgumentError(absl::StrCat(kBad, made.status().message()));
  }
  return absl::UnimplementedError(absl::StrCat(kBad, "requests of kind \"", key, "\" are not supported by this server"));
}

}  // namespace pw::frontend
