#include "pathways/buffers/dtype.h"

#include "absl/strings/str_cat.h"

namespace pw::buffers {
namespace {

struct Row {
  DType dtype;
  int host_bytes;
  std::string_view name;
};

constexpr Row kTypes[] = {
    {DType::kPred, 1, "pred"},
    {DType::kS1, 1, "s1"},
    {DType::kS2, 1, "s2"},
    {DType::kS4, 1, "s4"},
    {DType::kS8, 1, "s8"},
    {DType::kS16, 2, "s16"},
    {DType::kS32, 4, "s32"},
    {DType::kS64, 8, "s64"},
    {DType::kU1, 1, "u1"},
    {DType::kU2, 1, "u2"},
    {DType::kU4, 1, "u4"},
    {DType::kU8, 1, "u8"},
    {DType::kU16, 2, "u16"},
    {DType::kU32, 4, "u32"},
    {DType::kU64, 8, "u64"},
    {DType::kF16, 2, "f16"},
    {DType::kF32, 4, "f32"},
    {DType::kF64, 8, "f64"},
    {DType::kBF16, 2, "bf16"},
    {DType::kC64, 8, "c64"},
    {DType::kC128, 16, "c128"},
    {DType::kF8E3M4, 1, "f8e3m4"},
    {DType::kF8E4M3, 1, "f8e4m3"},
    {DType::kF8E4M3FN, 1, "f8e4m3fn"},
    {DType::kF8E4M3B11FNUZ, 1, "f8e4m3b11fnuz"},
    {DType::kF8E4M3FNUZ, 1, "f8e4m3fnuz"},
    {DType::kF8E5M2, 1, "f8e5m2"},
    {DType::kF8E5M2FNUZ, 1, "f8e5m2fnuz"},
    {DType::kF8E8M0FNU, 1, "f8e8m0fnu"},
    {DType::kF4E2M1FN, 1, "f4e2m1fn"},
    {DType::kF6E3M2FN, 1, "f6e3m2fn"},
    {DType::kF6E2M3FN, 1, "f6e2m3fn"},
    {DType::kOpaque, 0, "opaque"},
    {DType::kToken, 0, "token"},
    {DType::kString, 0, "string"},
};

const Row* Find(DType dtype) {
  for (const Row& row : kTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

int HostBytes(DType dtype) {
  const Row* row = Find(dtype);
  return row == nullptr ? 0 : row->host_bytes;
}

int DeviceBits(DType dtype) {
  switch (dtype) {
    case DType::kS4:
    case DType::kU4:
    case DType::kF4E2M1FN:
      return 4;
    case DType::kS2:
    case DType::kU2:
      return 2;
    case DType::kS1:
    case DType::kU1:
      return 1;
    default:
      return 8 * HostBytes(dtype);
  }
}

std::string_view Name(DType dtype) {
  const Row* row = Find(dtype);
  return row == nullptr ? "invalid" : row->name;
}

absl::StatusOr<DType> DTypeFromNumber(int32_t number) {
  const Row* row = Find(static_cast<DType>(number));
  if (row == nullptr) return absl::InvalidArgumentError(absl::StrCat("no element type has the number ", number));
  return row->dtype;
}

}  // namespace pw::buffers
