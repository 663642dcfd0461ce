// Singular value decomposition, by divide and conquer and by QR iteration.
#include "plugins/pjrt_cpu/lapack/handler.h"

namespace pw::pjrt_cpu {
namespace {

using IntIn = ffi::Buffer<ffi::S32>;

struct SvdShape {
  Batch matrix;
  int ldu = 1;
  int ldvt = 1;
  char job = 'A';
  int64_t smaller() const { return std::min(matrix.rows, matrix.columns); }
  int64_t larger() const { return std::max(matrix.rows, matrix.columns); }
};

template <typename T>
struct SvdScratch {
  std::unique_ptr<T[]> work;
  int lwork = -1;
  std::unique_ptr<Real<T>[]> rwork;
  std::unique_ptr<int[]> iwork;
};

template <typename T>
struct Gesdd {
  static int64_t RealWork(const SvdShape& s) {
    const int64_t mn = s.smaller(), mx = s.larger();
    return std::max(7 * mn, mn * std::max(5 * mn + 7, 2 * mx + 2 * mn + 1));
  }
  static int Run(const SvdShape& s, T* a, Real<T>* values, T* u, T* vt, T* work, int lwork, Real<T>* rwork, int* iwork) {
    const Batch& m = s.matrix;
    const int lda = m.lead();
    int info = 0;
    if constexpr (kIsComplex<T>) {
      Lapack<T>::gesdd(&s.job, &m.rows, &m.columns, a, &lda, values, u, &s.ldu, vt, &s.ldvt, work, &lwork, rwork, iwork, &info,
                       1);
    } else {
      Lapack<T>::gesdd(&s.job, &m.rows, &m.columns, a, &lda, values, u, &s.ldu, vt, &s.ldvt, work, &lwork, iwork, &info, 1);
    }
    return info;
  }
};

template <typename T>
struct Gesvd {
  static int64_t RealWork(const SvdShape& s) { return 5 * s.smaller(); }
  static int Run(const SvdShape& s, T* a, Real<T>* values, T* u, T* vt, T* work, int lwork, Real<T>* rwork, int* iwork) {
    const Batch& m = s.matrix;
    const int lda = m.lead();
    int info = 0;
    if constexpr (kIsComplex<T>) {
      Lapack<T>::gesvd(&s.job, &s.job, &m.rows, &m.columns, a, &lda, values, u, &s.ldu, vt, &s.ldvt, work, &lwork, rwork, &info,
                       1, 1);
    } else {
      Lapack<T>::gesvd(&s.job, &s.job, &m.rows, &m.columns, a, &lda, values, u, &s.ldu, vt, &s.ldvt, work, &lwork, &info, 1, 1);
    }
    return info;
  }
};

template <typename T, template <typename> class Routine>
SvdScratch<T> MakeScratch(const SvdShape& shape) {
  SvdScratch<T> scratch;
  scratch.rwork = Scratch<Real<T>>(kIsComplex<T> ? Routine<T>::RealWork(shape) : 1);
  scratch.iwork = Scratch<int>(8 * shape.smaller());
  T size{};
  Routine<T>::Run(shape, nullptr, nullptr, nullptr, nullptr, &size, -1, scratch.rwork.get(), scratch.iwork.get());
  scratch.lwork = WorkSize(size);
  scratch.work = Scratch<T>(scratch.lwork);
  return scratch;
}

template <typename T, template <typename> class Routine>
ffi::Error Svd(In<T> a, Out<T> out, Out<Real<T>> values, Out<T> u, Out<T> vt, Info info, uint8_t mode) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  PW_SPLIT(left, u->dimensions(), 2);
  PW_SPLIT(right, vt->dimensions(), 2);
  const SvdShape shape{matrix, left.lead(), right.lead(), static_cast<char>(mode)};
  Seed(a.typed_data(), out->typed_data(), matrix.count * matrix.size());
  const SvdScratch<T> scratch = MakeScratch<T, Routine>(shape);
  for (int64_t i = 0; i < matrix.count; ++i) {
    T* m = out->typed_data() + i * matrix.size();
    info->typed_data()[i] = AllFinite(m, matrix.size())
                                ? Routine<T>::Run(shape, m, values->typed_data() + i * shape.smaller(),
                                                  u->typed_data() + i * left.size(), vt->typed_data() + i * right.size(),
                                                  scratch.work.get(), scratch.lwork, scratch.rwork.get(), scratch.iwork.get())
                                : kNotFinite;
  }
  return ffi::Error::Success();
}

template <typename T>
ffi::Error DivideAndConquer(In<T> a, Out<T> out, Out<Real<T>> s, Out<T> u, Out<T> vt, Info info, uint8_t mode) {
  return Svd<T, Gesdd>(a, out, s, u, vt, info, mode);
}

template <typename T>
ffi::Error QrIteration(In<T> a, Out<T> out, Out<Real<T>> s, Out<T> u, Out<T> vt, Info info, uint8_t mode) {
  return Svd<T, Gesvd>(a, out, s, u, vt, info, mode);
}

template <typename T>
auto SvdBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<Real<T>>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<IntIn>()
      .template Attr<uint8_t>("mode");
}

}  // namespace

absl::Status RegisterSvd() {
  PW_REGISTER_FOUR(SvdBinding, DivideAndConquer, "gesdd", "gesdd");
  PW_REGISTER_FOUR(SvdBinding, QrIteration, "gesvd", "gesvd");
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
