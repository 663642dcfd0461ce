// Helpers for the LAPACK handlers of this folder.
//
// A handler gets a batch of matrices. The last two dimensions are rows and columns, stored column by column (the caller's layouts
// say so); all dimensions before them are the batch. Vectors have one trailing dimension. Invariants:
//  1. A handler writes every output it declares, and `info` for each matrix as LAPACK defines it; a failed matrix is not an error.
//  2. An input that the caller aliased to an output may or may not be the same memory; Seed() copies it if not.
//  3. Matrices of a batch run one after another on the calling thread: XLA's own threads are the parallelism.
//  4. No global state; several threads may be in the same routine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plugins/pjrt_cpu/lapack/fortran.h"
#include "xla/ffi/api/ffi.h"

namespace pw::pjrt_cpu {

namespace ffi = ::xla::ffi;

// Registers a handler with XLA under `name`. `in_batches`: its calls may be split along batch dimensions (batch_partitioner.h).
absl::Status RegisterFfiHandler(absl::string_view name, XLA_FFI_Handler* handler, bool in_batches = true);

template <typename T>
struct TypeTag;
template <>
struct TypeTag<float> {
  static constexpr ffi::DataType value = ffi::F32;
};
template <>
struct TypeTag<double> {
  static constexpr ffi::DataType value = ffi::F64;
};
template <>
struct TypeTag<std::complex<float>> {
  static constexpr ffi::DataType value = ffi::C64;
};
template <>
struct TypeTag<std::complex<double>> {
  static constexpr ffi::DataType value = ffi::C128;
};

template <typename T>
using In = ffi::Buffer<TypeTag<T>::value>;
template <typename T>
using Out = ffi::ResultBuffer<TypeTag<T>::value>;
using Info = ffi::ResultBuffer<ffi::S32>;

// A batch of matrices, or of vectors (columns = 1).
struct Batch {
  int64_t count = 1;
  int rows = 0;
  int columns = 1;
  int64_t size() const { return int64_t{rows} * columns; }
  int lead() const { return std::max(1, rows); }
};

inline ffi::Error Refuse(std::string why) { return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::move(why)); }

// Splits dimensions into batch dimensions and the last `kept` of them (1 or 2).
inline ffi::ErrorOr<Batch> Split(ffi::Span<const int64_t> dims, size_t kept) {
  if (dims.size() < kept) return ffi::Unexpected(Refuse("a linear algebra operand has too few dimensions"));
  Batch batch;
  const size_t first = dims.size() - kept;
  for (size_t i = 0; i < first; ++i) batch.count *= dims[i];
  for (size_t i = first; i < dims.size(); ++i) {
    if (dims[i] > std::numeric_limits<int>::max()) {
      return ffi::Unexpected(Refuse("a matrix dimension exceeds what LAPACK's 32-bit integers can count"));
    }
    (i == first ? batch.rows : batch.columns) = static_cast<int>(dims[i]);
  }
  return batch;
}

template <typename T>
void Seed(const T* from, T* to, int64_t count) {
  if (from != to && count > 0) std::memcpy(to, from, sizeof(T) * static_cast<size_t>(count));
}

template <typename T>
std::unique_ptr<T[]> Scratch(int64_t count) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(std::max<int64_t>(1, count))]);
}

// Converts the size that a workspace query returned. In single precision large sizes come back rounded, possibly down.
template <typename T>
int WorkSize(T reported) {
  const double size = std::nextafter(static_cast<Real<T>>(std::real(reported)), std::numeric_limits<Real<T>>::max());
  return std::max(1, static_cast<int>(std::ceil(size)));
}

template <typename T>
bool AllFinite(const T* values, int64_t count) {
  return std::all_of(values, values + count,
                     [](const T& v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); });
}

// The value of `info` for a matrix that was not passed to LAPACK, because some routines never return from NaN.
inline constexpr int kNotFinite = -4;

#define PW_SPLIT(name, dims, kept)                      \
  ffi::ErrorOr<Batch> name##_or = Split(dims, kept);    \
  if (!name##_or.has_value()) return name##_or.error(); \
  const Batch name = *name##_or

// Registers Impl for two element types, under the two names.
#define PW_REGISTER_TWO(Binding, Impl, T1, name1, T2, name2)                           \
  do {                                                                                 \
    XLA_FFI_DEFINE_HANDLER(first_handler, Impl<T1>, Binding<T1>());                    \
    XLA_FFI_DEFINE_HANDLER(second_handler, Impl<T2>, Binding<T2>());                   \
    if (absl::Status s = RegisterFfiHandler(name1, first_handler); !s.ok()) return s;  \
    if (absl::Status s = RegisterFfiHandler(name2, second_handler); !s.ok()) return s; \
  } while (false)

// Registers Impl for the four element types, under lapack_<letter><routine>_ffi.
#define PW_REGISTER_FOUR(Binding, Impl, real_routine, complex_routine)                                           \
  PW_REGISTER_TWO(Binding, Impl, float, "lapack_s" real_routine "_ffi", double, "lapack_d" real_routine "_ffi"); \
  PW_REGISTER_TWO(Binding, Impl, std::complex<float>, "lapack_c" complex_routine "_ffi", std::complex<double>,   \
                  "lapack_z" complex_routine "_ffi")

absl::Status RegisterSolvers();
absl::Status RegisterFactorizations();
absl::Status RegisterSpectral();
absl::Status RegisterSvd();
absl::Status RegisterSparse();

}  // namespace pw::pjrt_cpu
