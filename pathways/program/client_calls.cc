#include "pathways/program/client_calls.h"

#include "absl/strings/ascii.h"

namespace pw::program {
namespace {

constexpr absl::string_view kCalls[] = {
    "InspectSharding",
    "CustomSPMDPartitioning",
    "xla_ffi_partitioned_python_cpu_callback",
    "xla_partitioned_python_cpu_callback",
    "xla_ffi_python_cpu_callback",
    "xla_ffi_python_gpu_callback",
    "xla_python_cpu_callback",
    "xla_python_gpu_callback",
    "xla_buffer_python_cpu_callback",
    "xla_buffer_python_gpu_callback",
};

bool IsWordCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Finds the name as a whole word: in bytecode, names are in a table, separated by zero bytes.
bool ContainsWord(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !IsWordCharacter(text[at - 1]);
    const size_t end = at + word.size();
    if (starts && (end == text.size() || !IsWordCharacter(text[end]))) return true;
  }
  return false;
}

}  // namespace

absl::string_view ClientCallIn(absl::string_view program) {
  for (absl::string_view call : kCalls) {
    if (ContainsWord(program, call)) return call;
  }
  return "";
}

}  // namespace pw::program
