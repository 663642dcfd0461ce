#include "plugins/pjrt_cpu/placement.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace pw::pjrt_cpu {
namespace {

constexpr absl::string_view kTarget = "annotate_device_placement";
constexpr absl::string_view kCall = "stablehlo.custom_call @annotate_device_placement(";

// Rewrites "%2 = stablehlo.custom_call @annotate_device_placement(%1) {...} : (T) -> T loc(...)" without the call and its attributes.
std::string Rewrite(absl::string_view line) {
  const size_t call = line.find(kCall);
  const size_t close = line.find(')', call);
  const size_t types = line.find(" : (", close);  // attributes cannot contain this: their strings are names
  if (call == absl::string_view::npos || close == absl::string_view::npos || types == absl::string_view::npos) {
    return std::string(line);
  }
  const absl::string_view operand = line.substr(call + kCall.size(), close - call - kCall.size());
  return absl::StrCat(line.substr(0, call), "stablehlo.reshape ", operand, line.substr(types));
}

}  // namespace

bool HasPlacement(absl::string_view module) { return absl::StrContains(module, kTarget); }

std::string WithoutPlacement(absl::string_view text) {
  return absl::StrJoin(absl::StrSplit(text, '\n'), "\n",
                       [](std::string* out, absl::string_view line) { absl::StrAppend(out, Rewrite(line)); });
}

}  // namespace pw::pjrt_cpu
