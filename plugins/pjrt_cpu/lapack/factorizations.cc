// Cholesky, LU, QR with and without pivoting, making and applying Q, and reductions to Hessenberg and tridiagonal form.
#include "plugins/pjrt_cpu/lapack/handler.h"

namespace pw::pjrt_cpu {
namespace {

using IntIn = ffi::Buffer<ffi::S32>;

template <typename T>
ffi::Error Potrf(In<T> a, Out<T> out, Info info, uint8_t uplo) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const char uplo_c = uplo;
  const int lda = matrix.lead();
  for (int64_t i = 0; i < matrix.count; ++i) {
    Lapack<T>::potrf(&uplo_c, &matrix.rows, out->typed_data() + i * matrix.size(), &lda, info->typed_data() + i, 1);
  }
  return ffi::Error::Success();
}

template <typename T>
auto PotrfBinding() {
  return ffi::Ffi::Bind().Arg<In<T>>().template Ret<In<T>>().template Ret<IntIn>().template Attr<uint8_t>("uplo");
}

template <typename T>
ffi::Error Getrf(In<T> a, Out<T> out, Info pivots, Info info) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const int lda = matrix.lead();
  const int64_t k = std::min(matrix.rows, matrix.columns);
  for (int64_t i = 0; i < matrix.count; ++i) {
    Lapack<T>::getrf(&matrix.rows, &matrix.columns, out->typed_data() + i * matrix.size(), &lda, pivots->typed_data() + i * k,
                     info->typed_data() + i);
  }
  return ffi::Error::Success();
}

template <typename T>
auto GetrfBinding() {
  return ffi::Ffi::Bind().Arg<In<T>>().template Ret<In<T>>().template Ret<IntIn>().template Ret<IntIn>();
}

template <typename T>
ffi::Error Geqrf(In<T> a, Out<T> out, Out<T> tau) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const int lda = matrix.lead();
  const int64_t k = std::min(matrix.rows, matrix.columns);
  int info = 0, lwork = -1;
  T size{};
  Lapack<T>::geqrf(&matrix.rows, &matrix.columns, nullptr, &lda, nullptr, &size, &lwork, &info);
  lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    Lapack<T>::geqrf(&matrix.rows, &matrix.columns, out->typed_data() + i * matrix.size(), &lda, tau->typed_data() + i * k,
                     work.get(), &lwork, &info);
  }
  return ffi::Error::Success();
}

template <typename T>
auto GeqrfBinding() {
  return ffi::Ffi::Bind().Arg<In<T>>().template Ret<In<T>>().template Ret<In<T>>();
}

template <typename T>
void CallGeqp3(const Batch& m, T* a, int lda, int* jpvt, T* tau, T* work, int lwork, Real<T>* rwork) {
  int info = 0;
  if constexpr (kIsComplex<T>) {
    Lapack<T>::geqp3(&m.rows, &m.columns, a, &lda, jpvt, tau, work, &lwork, rwork, &info);
  } else {
    Lapack<T>::geqp3(&m.rows, &m.columns, a, &lda, jpvt, tau, work, &lwork, &info);
  }
}

template <typename T>
ffi::Error Geqp3(In<T> a, IntIn jpvt, Out<T> out, Info jpvt_out, Out<T> tau) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  Seed(jpvt.typed_data(), jpvt_out->typed_data(), matrix.count * matrix.columns);
  const int64_t k = std::min(matrix.rows, matrix.columns);
  const auto rwork = Scratch<Real<T>>(2 * int64_t{matrix.columns});
  T size{};
  CallGeqp3<T>(matrix, nullptr, matrix.lead(), nullptr, nullptr, &size, -1, rwork.get());
  const int lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    CallGeqp3<T>(matrix, out->typed_data() + i * matrix.size(), matrix.lead(), jpvt_out->typed_data() + i * matrix.columns,
                 tau->typed_data() + i * k, work.get(), lwork, rwork.get());
  }
  return ffi::Error::Success();
}

template <typename T>
auto Geqp3Binding() {
  return ffi::Ffi::Bind().Arg<In<T>>().template Arg<IntIn>().template Ret<In<T>>().template Ret<IntIn>().template Ret<In<T>>();
}

template <typename T>
ffi::Error MakeQ(In<T> a, In<T> tau, Out<T> out) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  PW_SPLIT(scalars, tau.dimensions(), 1);
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const int lda = matrix.lead(), k = scalars.rows;
  int info = 0, lwork = -1;
  T size{};
  Lapack<T>::make_q(&matrix.rows, &matrix.columns, &k, nullptr, &lda, nullptr, &size, &lwork, &info);
  lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    Lapack<T>::make_q(&matrix.rows, &matrix.columns, &k, out->typed_data() + i * matrix.size(), &lda, tau.typed_data() + i * k,
                      work.get(), &lwork, &info);
  }
  return ffi::Error::Success();
}

template <typename T>
auto MakeQBinding() {
  return ffi::Ffi::Bind().Arg<In<T>>().template Arg<In<T>>().template Ret<In<T>>();
}

template <typename T>
ffi::Error ApplyQ(In<T> a, In<T> tau, In<T> c, Out<T> out, bool left, bool transpose) {
  PW_SPLIT(reflectors, a.dimensions(), 2);
  PW_SPLIT(scalars, tau.dimensions(), 1);
  PW_SPLIT(matrix, c.dimensions(), 2);
  if (reflectors.rows != (left ? matrix.rows : matrix.columns) || reflectors.count != matrix.count) {
    return Refuse("multiplication by Q: the reflectors do not fit the matrix");
  }
  Seed(c.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const char side = left ? 'L' : 'R', trans = !transpose ? 'N' : kIsComplex<T> ? 'C' : 'T';
  const int lda = reflectors.lead(), ldc = matrix.lead(), k = scalars.rows;
  int info = 0, lwork = -1;
  T size{};
  Lapack<T>::apply_q(&side, &trans, &matrix.rows, &matrix.columns, &k, a.typed_data(), &lda, tau.typed_data(), out->typed_data(),
                     &ldc, &size, &lwork, &info, 1, 1);
  lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    Lapack<T>::apply_q(&side, &trans, &matrix.rows, &matrix.columns, &k, a.typed_data() + i * reflectors.size(), &lda,
                       tau.typed_data() + i * k, out->typed_data() + i * matrix.size(), &ldc, work.get(), &lwork, &info, 1, 1);
  }
  return ffi::Error::Success();
}

template <typename T>
auto ApplyQBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Ret<In<T>>()
      .template Attr<bool>("left")
      .template Attr<bool>("transpose");
}

template <typename T>
ffi::Error Gehrd(In<T> a, Out<T> out, Out<T> tau, Info info, int32_t low, int32_t high) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const int lda = matrix.lead(), n = matrix.rows;
  int ignored = 0, lwork = -1;
  T size{};
  Lapack<T>::gehrd(&n, &low, &high, nullptr, &lda, nullptr, &size, &lwork, &ignored);
  lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    Lapack<T>::gehrd(&n, &low, &high, out->typed_data() + i * matrix.size(), &lda, tau->typed_data() + i * std::max(0, n - 1),
                     work.get(), &lwork, info->typed_data() + i);
  }
  return ffi::Error::Success();
}

template <typename T>
auto GehrdBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<IntIn>()
      .template Attr<int32_t>("low")
      .template Attr<int32_t>("high");
}

template <typename T>
ffi::Error Tridiagonalize(In<T> a, Out<T> out, Out<Real<T>> d, Out<Real<T>> e, Out<T> tau, Info info, uint8_t uplo) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const char uplo_c = uplo;
  const int lda = matrix.lead(), n = matrix.rows;
  const int64_t off = std::max(0, n - 1);
  int ignored = 0, lwork = -1;
  T size{};
  Lapack<T>::tridiagonalize(&uplo_c, &n, nullptr, &lda, nullptr, nullptr, nullptr, &size, &lwork, &ignored, 1);
  lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    Lapack<T>::tridiagonalize(&uplo_c, &n, out->typed_data() + i * matrix.size(), &lda, d->typed_data() + i * n,
                              e->typed_data() + i * off, tau->typed_data() + i * off, work.get(), &lwork, info->typed_data() + i,
                              1);
  }
  return ffi::Error::Success();
}

template <typename T>
auto TridiagonalizeBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<Real<T>>>()
      .template Ret<In<Real<T>>>()
      .template Ret<In<T>>()
      .template Ret<IntIn>()
      .template Attr<uint8_t>("uplo");
}

}  // namespace

absl::Status RegisterFactorizations() {
  PW_REGISTER_FOUR(PotrfBinding, Potrf, "potrf", "potrf");
  PW_REGISTER_FOUR(GetrfBinding, Getrf, "getrf", "getrf");
  PW_REGISTER_FOUR(GeqrfBinding, Geqrf, "geqrf", "geqrf");
  PW_REGISTER_FOUR(Geqp3Binding, Geqp3, "geqp3", "geqp3");
  PW_REGISTER_FOUR(MakeQBinding, MakeQ, "orgqr", "ungqr");
  PW_REGISTER_FOUR(ApplyQBinding, ApplyQ, "ormqr", "unmqr");
  PW_REGISTER_FOUR(GehrdBinding, Gehrd, "gehrd", "gehrd");
  PW_REGISTER_FOUR(TridiagonalizeBinding, Tridiagonalize, "sytrd", "hetrd");
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
