#include "plugins/pjrt_cpu/net/reductions.h"

#include <complex>
#include <cstdint>
#include <type_traits>

#include "xla/types.h"

namespace pw::pjrt_cpu {
namespace {

template <typename T>
constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Combines two elements. Signed sums and products wrap around. If one is NaN, so is the result, as in XLA's own arithmetic.
template <typename T, xla::ReductionKind kind>
T Combine(T a, T b) {
  if constexpr (kind == xla::ReductionKind::MIN) return a != a || a < b ? a : b;
  if constexpr (kind == xla::ReductionKind::MAX) return a != a || b < a ? a : b;
  if constexpr (std::is_same_v<T, bool>) {
    return kind == xla::ReductionKind::SUM ? a || b : a && b;
  } else if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(kind == xla::ReductionKind::SUM ? x + y : x * y);
  } else {
    return static_cast<T>(kind == xla::ReductionKind::SUM ? a + b : a * b);
  }
}

template <typename T, xla::ReductionKind kind>
void CombineInto(char* sum, const char* next, size_t count) {
  T* to = reinterpret_cast<T*>(sum);
  const T* from = reinterpret_cast<const T*>(next);
  for (size_t i = 0; i < count; ++i) to[i] = Combine<T, kind>(to[i], from[i]);
}

template <typename T>
Reduction ForType(xla::ReductionKind kind) {
  switch (kind) {
    case xla::ReductionKind::SUM:
      return {CombineInto<T, xla::ReductionKind::SUM>, sizeof(T)};
    case xla::ReductionKind::PRODUCT:
      return {CombineInto<T, xla::ReductionKind::PRODUCT>, sizeof(T)};
    default:
      break;
  }
  if constexpr (!kIsComplex<T>) {
    if (kind == xla::ReductionKind::MIN) return {CombineInto<T, xla::ReductionKind::MIN>, sizeof(T)};
    if (kind == xla::ReductionKind::MAX) return {CombineInto<T, xla::ReductionKind::MAX>, sizeof(T)};
  }
  return {};
}

}  // namespace

Reduction FindReduction(xla::PrimitiveType type, xla::ReductionKind kind) {
  switch (type) {
    case xla::PRED:
      return ForType<bool>(kind);
    case xla::S8:
      return ForType<int8_t>(kind);
    case xla::U8:
      return ForType<uint8_t>(kind);
    case xla::S16:
      return ForType<int16_t>(kind);
    case xla::U16:
      return ForType<uint16_t>(kind);
    case xla::S32:
      return ForType<int32_t>(kind);
    case xla::U32:
      return ForType<uint32_t>(kind);
    case xla::S64:
      return ForType<int64_t>(kind);
    case xla::U64:
      return ForType<uint64_t>(kind);
    case xla::F16:
      return ForType<xla::half>(kind);
    case xla::BF16:
      return ForType<xla::bfloat16>(kind);
    case xla::F32:
      return ForType<float>(kind);
    case xla::F64:
      return ForType<double>(kind);
    case xla::C64:
      return ForType<std::complex<float>>(kind);
    case xla::C128:
      return ForType<std::complex<double>>(kind);
    case xla::F8E5M2:
      return ForType<tsl::float8_e5m2>(kind);
    case xla::F8E5M2FNUZ:
      return ForType<tsl::float8_e5m2fnuz>(kind);
    case xla::F8E4M3:
      return ForType<tsl::float8_e4m3>(kind);
    case xla::F8E4M3FN:
      return ForType<tsl::float8_e4m3fn>(kind);
    case xla::F8E4M3FNUZ:
      return ForType<tsl::float8_e4m3fnuz>(kind);
    case xla::F8E4M3B11FNUZ:
      return ForType<tsl::float8_e4m3b11fnuz>(kind);
    case xla::F8E3M4:
      return ForType<tsl::float8_e3m4>(kind);
    default:
      return {};
  }
}

}  // namespace pw::pjrt_cpu
