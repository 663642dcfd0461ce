#include "pathways/worker/program_checks.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pw::worker {
namespace {

constexpr absl::string_view kClientSide[] = {
    "InspectSharding",
    "CustomSPMDPartitioning",
    "xla_ffi_partitioned_python_cpu_callback",
    "xla_partitioned_python_cpu_callback",
    "xla_ffi_python_cpu_callback",
    "xla_python_cpu_callback",
    "xla_buffer_python_cpu_callback",
};

bool IsWordCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The name as a whole word: in bytecode, names lie in a table, separated by zero bytes.
bool ContainsWord(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !IsWordCharacter(text[at - 1]);
    const size_t end = at + word.size();
    if (starts && (end == text.size() || !IsWordCharacter(text[end]))) return true;
  }
  return false;
}

std::vector<int> Numbers(absl::string_view version) {
  std::vector<int> numbers;
  for (absl::string_view part : absl::StrSplit(version, '.')) {
    int n = 0;
    if (!absl::SimpleAtoi(part, &n)) return {};
    numbers.push_back(n);
  }
  return numbers;
}

// Whether the runtime says that it could not read the program. What else it may say (a wrong shape, memory that is short) has nothing to
// do with versions.
bool IsAboutTheFormat(absl::string_view message) {
  constexpr absl::string_view kWords[] = {"parse", "deserialize", "bytecode", "stablehlo", "vhlo", "legalize", "dialect"};
  const std::string lower = absl::AsciiStrToLower(message);
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](absl::string_view word) { return absl::StrContains(lower, word); });
}

}  // namespace

absl::Status CheckCustomCalls(absl::string_view program) {
  for (absl::string_view target : kClientSide) {
    if (!ContainsWord(program, target)) continue;
    return absl::UnimplementedError(
        absl::StrCat("the program calls '", target, "', which only works where the client and its devices are one process. ",
                     absl::StrContains(target, "callback") ? "Host callbacks need the pathways package on the client's side"
                                                           : "Remove that call"));
  }
  return absl::OkStatus();
}

std::string StablehloVersion(absl::string_view program) {
  constexpr absl::string_view kProducer = "StableHLO_v";
  const size_t at = program.substr(0, 64).find(kProducer);
  if (at == absl::string_view::npos) return "";
  absl::string_view rest = program.substr(at + kProducer.size());
  const auto end = std::find_if_not(rest.begin(), rest.end(),
                                    [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.'; });
  return std::string(rest.begin(), end);
}

absl::Status ExplainRefusal(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version) {
  const std::string version = StablehloVersion(program);
  const std::vector<int> theirs = Numbers(version), ours = Numbers(runtime_version);
  if (theirs.empty() || ours.empty() || theirs <= ours || !IsAboutTheFormat(refusal.message())) return refusal;
  return absl::Status(refusal.code(), absl::StrCat(refusal.message(), "\nThe program was written for StableHLO ", version,
                                                   ", this worker's device runtime reads up to ", runtime_version,
                                                   ": use a newer device runtime on the workers, or an older jax on the client"));
}

}  // namespace pw::worker
