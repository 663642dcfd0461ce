// Multiplies a sparse matrix in compressed rows by a dense vector or matrix.
#include "plugins/pjrt_cpu/lapack/handler.h"

namespace pw::pjrt_cpu {
namespace {

struct Product {
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 1;
};

// All arrays are row-major. Indices outside the matrix contribute nothing, as in XLA's own gather.
template <typename T, typename Index>
void Multiply(const Product& p, const T* data, const Index* row_starts, const Index* column_of, const T* dense, T* out) {
  std::fill(out, out + p.rows * p.columns, T(0));
  for (int64_t r = 0; r < p.rows; ++r) {
    T* row = out + r * p.columns;
    for (Index k = row_starts[r]; k < row_starts[r + 1]; ++k) {
      const int64_t column = column_of[k];
      if (column < 0 || column >= p.inner) continue;
      const T* from = dense + column * p.columns;
      for (int64_t c = 0; c < p.columns; ++c) row[c] += data[k] * from[c];
    }
  }
}

template <typename T>
ffi::Error Run(const Product& p, const ffi::AnyBuffer& data, const ffi::AnyBuffer& row_starts, const ffi::AnyBuffer& column_of,
               const ffi::AnyBuffer& dense, ffi::AnyBuffer& out) {
  const T* values = static_cast<const T*>(data.untyped_data());
  const T* right = static_cast<const T*>(dense.untyped_data());
  T* result = static_cast<T*>(out.untyped_data());
  if (row_starts.element_type() == ffi::S32) {
    Multiply(p, values, static_cast<const int32_t*>(row_starts.untyped_data()),
             static_cast<const int32_t*>(column_of.untyped_data()), right, result);
  } else {
    Multiply(p, values, static_cast<const int64_t*>(row_starts.untyped_data()),
             static_cast<const int64_t*>(column_of.untyped_data()), right, result);
  }
  return ffi::Error::Success();
}

ffi::Error SparseDense(ffi::AnyBuffer data, ffi::AnyBuffer row_starts, ffi::AnyBuffer column_of, ffi::AnyBuffer dense,
                       ffi::Result<ffi::AnyBuffer> out) {
  const auto dims = dense.dimensions();
  if (dims.size() < 1 || dims.size() > 2 || row_starts.element_count() < 1) {
    return Refuse("sparse product: the dense operand must be a vector or a matrix");
  }
  if (row_starts.element_type() != column_of.element_type() ||
      (row_starts.element_type() != ffi::S32 && row_starts.element_type() != ffi::S64)) {
    return Refuse("sparse product: row starts and column indices must both be s32 or both be s64");
  }
  const Product p{static_cast<int64_t>(row_starts.element_count()) - 1, dims[0], dims.size() == 2 ? dims[1] : 1};
  switch (data.element_type()) {
    case ffi::S32:
      return Run<int32_t>(p, data, row_starts, column_of, dense, *out);
    case ffi::S64:
      return Run<int64_t>(p, data, row_starts, column_of, dense, *out);
    case ffi::F32:
      return Run<float>(p, data, row_starts, column_of, dense, *out);
    case ffi::F64:
      return Run<double>(p, data, row_starts, column_of, dense, *out);
    case ffi::C64:
      return Run<std::complex<float>>(p, data, row_starts, column_of, dense, *out);
    case ffi::C128:
      return Run<std::complex<double>>(p, data, row_starts, column_of, dense, *out);
    default:
      return Refuse("sparse product: the element type must be s32, s64, f32, f64, c64 or c128");
  }
}

}  // namespace

absl::Status RegisterSparse() {
  XLA_FFI_DEFINE_HANDLER(handler, SparseDense,
                         ffi::Ffi::Bind()
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::AnyBuffer>()
                             .Ret<ffi::AnyBuffer>());
  return RegisterFfiHandler("cpu_csr_sparse_dense_ffi", handler);
}

}  // namespace pw::pjrt_cpu
