#include "pathways/frontend/convert/layout.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ifrt_proxy/serdes.pb.h"
#include "pathways/base/status_macros.h"

namespace pw::frontend {
namespace {

constexpr int kMaxRank = 4096;  // limit of the text form; real arrays have a few dimensions

absl::Status CheckPermutation(const std::vector<int64_t>& order, int rank) {
  std::vector<bool> seen(order.size());
  for (int64_t d : order) {
    if (d < 0 || d >= static_cast<int64_t>(order.size()) || seen[d]) {
      return absl::InvalidArgumentError("a layout does not name every dimension once");
    }
    seen[d] = true;
  }
  if (static_cast<int>(order.size()) == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a layout of ", order.size(), " dimensions was given for an array of rank ", rank));
}

absl::StatusOr<std::string> FromMinorToMajor(const std::vector<int64_t>& order, int rank) {
  PW_RETURN_IF_ERROR(CheckPermutation(order, rank));
  bool row_major = true;
  xla::LayoutProto proto;
  for (int i = 0; i < rank; ++i) {
    row_major = row_major && order[i] == rank - 1 - i;
    proto.add_minor_to_major(order[i]);
  }
  return row_major ? std::string() : proto.SerializeAsString();
}

absl::StatusOr<std::string> FromXla(const xla::LayoutProto& layout, int rank) {
  if (layout.tiles_size() > 0)
    return absl::UnimplementedError("tiled layouts are not supported for arrays made from host buffers");
  return FromMinorToMajor({layout.minor_to_major().begin(), layout.minor_to_major().end()}, rank);
}

}  // namespace

std::string RowMajorLayoutText(int rank) {
  std::string text = "{";
  for (int d = rank < kMaxRank ? rank - 1 : -1; d >= 0; --d) absl::StrAppend(&text, d, d > 0 ? "," : "");
  return text + "}";
}

absl::StatusOr<std::string> LayoutFromText(absl::string_view text, int rank) {
  if (!absl::ConsumePrefix(&text, "{") || !absl::ConsumeSuffix(&text, "}")) {
    return absl::InvalidArgumentError("a layout is not of the form {1,0}");
  }
  if (text.find(':') != text.npos)
    return absl::UnimplementedError(absl::StrCat("layout {", text, "}: only the order of dimensions is supported"));
  std::vector<int64_t> order;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t d;
    if (!absl::SimpleAtoi(part, &d)) return absl::InvalidArgumentError("a layout is not of the form {1,0}");
    order.push_back(d);
  }
  return FromMinorToMajor(order, rank);
}

absl::StatusOr<std::string> LayoutFromProto(const xla::ifrt::LayoutProto& proto, int rank) {
  const xla::ifrt::Serialized& serialized = proto.serialized_layout();
  if (serialized.type_name().empty() && serialized.data().empty()) return std::string();
  if (serialized.type_name() == "xla::ifrt::PjRtLayout") {
    xla::ifrt::PjRtLayoutProto layout;
    if (!layout.ParseFromString(serialized.data())) return absl::InvalidArgumentError("a PjRtLayout does not parse");
    return FromXla(layout.xla_layout(), rank);
  }
  if (serialized.type_name() == "xla::ifrt::CompactLayout") {
    xla::ifrt::CompactLayoutProto layout;
    if (!layout.ParseFromString(serialized.data())) return absl::InvalidArgumentError("a CompactLayout does not parse");
    return FromMinorToMajor({layout.major_to_minor().rbegin(), layout.major_to_minor().rend()}, rank);
  }
  return absl::UnimplementedError(absl::StrCat("layouts of type ", serialized.type_name(), " are not supported"));
}

}  // namespace pw::frontend
