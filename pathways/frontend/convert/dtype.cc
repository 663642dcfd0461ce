#include "pathways/frontend/convert/dtype.h"

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/convert/version.h"

namespace pw::frontend {
namespace {

using buffers::DType;
using Kind = xla::ifrt::DTypeProto;

constexpr auto kPairs = std::to_array<std::pair<int, DType>>({
    {Kind::KIND_PRED, DType::kPred},
    {Kind::KIND_S1, DType::kS1},
    {Kind::KIND_S2, DType::kS2},
    {Kind::KIND_S4, DType::kS4},
    {Kind::KIND_S8, DType::kS8},
    {Kind::KIND_S16, DType::kS16},
    {Kind::KIND_S32, DType::kS32},
    {Kind::KIND_S64, DType::kS64},
    {Kind::KIND_U1, DType::kU1},
    {Kind::KIND_U2, DType::kU2},
    {Kind::KIND_U4, DType::kU4},
    {Kind::KIND_U8, DType::kU8},
    {Kind::KIND_U16, DType::kU16},
    {Kind::KIND_U32, DType::kU32},
    {Kind::KIND_U64, DType::kU64},
    {Kind::KIND_F16, DType::kF16},
    {Kind::KIND_F32, DType::kF32},
    {Kind::KIND_F64, DType::kF64},
    {Kind::KIND_BF16, DType::kBF16},
    {Kind::KIND_C64, DType::kC64},
    {Kind::KIND_C128, DType::kC128},
    {Kind::KIND_TOKEN, DType::kToken},
    {Kind::KIND_OPAQUE, DType::kOpaque},
    {Kind::KIND_F8E3M4, DType::kF8E3M4},
    {Kind::KIND_F8E4M3, DType::kF8E4M3},
    {Kind::KIND_F8E4M3FN, DType::kF8E4M3FN},
    {Kind::KIND_F8E4M3B11FNUZ, DType::kF8E4M3B11FNUZ},
    {Kind::KIND_F8E4M3FNUZ, DType::kF8E4M3FNUZ},
    {Kind::KIND_F8E5M2, DType::kF8E5M2},
    {Kind::KIND_F8E5M2FNUZ, DType::kF8E5M2FNUZ},
    {Kind::KIND_F8E8M0FNU, DType::kF8E8M0FNU},
    {Kind::KIND_F4E2M1FN, DType::kF4E2M1FN},
    {Kind::KIND_F6E2M3FN, DType::kF6E2M3FN},
    {Kind::KIND_F6E3M2FN, DType::kF6E3M2FN},
    {Kind::KIND_STRING, DType::kString},
});

}  // namespace

absl::StatusOr<DType> DTypeFromProto(const xla::ifrt::DTypeProto& proto) {
  PW_RETURN_IF_ERROR(CheckVersion("element types", proto.version_number()));
  for (const auto& [kind, dtype] : kPairs) {
    if (kind == proto.kind()) return dtype;
  }
  return absl::UnimplementedError(absl::StrCat("element type ", static_cast<int>(proto.kind()), " is not known to this server"));
}

xla::ifrt::DTypeProto DTypeToProto(DType dtype) {
  xla::ifrt::DTypeProto proto;
  for (const auto& [kind, ours] : kPairs) {
    if (ours == dtype) proto.set_kind(static_cast<Kind::Kind>(kind));
  }
  return proto;
}

}  // namespace pw::frontend
