#include "pathways/worker/execute/program_checks.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/program/client_calls.h"
#include "pathways/program/stablehlo_version.h"

namespace pw::worker {
namespace {

// Returns whether the runtime says that it could not read the program. Its other errors (a wrong shape, lack of memory) have
// nothing to do with versions.
bool IsAboutTheFormat(absl::string_view message) {
  constexpr absl::string_view kWords[] = {"parse", "deserialize", "bytecode", "stablehlo", "vhlo", "legalize", "dialect"};
  const std::string lower = absl::AsciiStrToLower(message);
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](absl::string_view word) { return absl::StrContains(lower, word); });
}

}  // namespace

absl::Status CheckCustomCalls(absl::string_view program) {
  const absl::string_view target = program::ClientCallIn(program);
  if (target.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the program calls '", target, "', which only works where the client and its devices are one process. ",
                   absl::StrContains(target, "callback") ? "Host callbacks need the pathways package on the client's side"
                                                         : "Remove that call"));
}

bool IsNewerThanRuntime(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version) {
  const auto theirs = program::StablehloVersionOf(program), ours = program::ParseStablehloVersion(runtime_version);
  return theirs.has_value() && ours.has_value() && *theirs > *ours && IsAboutTheFormat(refusal.message());
}

absl::Status ExplainNewerProgram(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version) {
  return absl::Status(refusal.code(),
                      absl::StrCat(refusal.message(), "\nThe program was written for StableHLO ",
                                   program::StablehloVersionOf(program).value_or(program::StablehloVersion()).ToString(),
                                   ", this worker's device runtime reads up to ", runtime_version,
                                   ": use a newer device runtime on the workers, or an older jax on the client"));
}

}  // namespace pw::worker
