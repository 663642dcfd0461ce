// Eigenvalues of symmetric and general matrices, and the Schur form.
#include <vector>

#include "plugins/pjrt_cpu/lapack/handler.h"

namespace pw::pjrt_cpu {
namespace {

using IntIn = ffi::Buffer<ffi::S32>;
template <typename T>
using Complex = std::complex<Real<T>>;

// --- Symmetric and Hermitian ---

// The workspace of one call, with sizes from a query.
template <typename T>
class EvdCall {
 public:
  EvdCall(char mode, char uplo, const Batch& matrix) : mode_(mode), uplo_(uplo), n_(matrix.rows), lda_(matrix.lead()) {
    T work{};
    Real<T> rwork{};
    int iwork = 0;
    const int query = -1;
    Run(nullptr, nullptr, &work, query, &rwork, query, &iwork, query);
    work_size_ = WorkSize(work);
    rwork_size_ = kIsComplex<T> ? WorkSize(rwork) : 1;
    iwork_size_ = std::max(1, iwork);
    work_ = Scratch<T>(work_size_);
    rwork_ = Scratch<Real<T>>(rwork_size_);
    iwork_ = Scratch<int>(iwork_size_);
  }

  int operator()(T* a, Real<T>* w) {
    return Run(a, w, work_.get(), work_size_, rwork_.get(), rwork_size_, iwork_.get(), iwork_size_);
  }

 private:
  int Run(T* a, Real<T>* w, T* work, int lwork, Real<T>* rwork, int lrwork, int* iwork, int liwork) {
    int info = 0;
    if constexpr (kIsComplex<T>) {
      Lapack<T>::evd(&mode_, &uplo_, &n_, a, &lda_, w, work, &lwork, rwork, &lrwork, iwork, &liwork, &info, 1, 1);
    } else {
      Lapack<T>::evd(&mode_, &uplo_, &n_, a, &lda_, w, work, &lwork, iwork, &liwork, &info, 1, 1);
    }
    return info;
  }

  const char mode_, uplo_;
  const int n_, lda_;
  int work_size_ = 1, rwork_size_ = 1, iwork_size_ = 1;
  std::unique_ptr<T[]> work_;
  std::unique_ptr<Real<T>[]> rwork_;
  std::unique_ptr<int[]> iwork_;
};

template <typename T>
ffi::Error Evd(In<T> a, Out<T> vectors, Out<Real<T>> values, Info info, uint8_t mode, uint8_t uplo) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  Seed(a.typed_data(), vectors->typed_data(), matrix.count * matrix.size());
  EvdCall<T> call(static_cast<char>(mode), static_cast<char>(uplo), matrix);
  for (int64_t i = 0; i < matrix.count; ++i) {
    T* v = vectors->typed_data() + i * matrix.size();
    info->typed_data()[i] = AllFinite(v, matrix.size()) ? call(v, values->typed_data() + i * matrix.rows) : kNotFinite;
  }
  return ffi::Error::Success();
}

template <typename T>
auto EvdBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<Real<T>>>()
      .template Ret<IntIn>()
      .template Attr<uint8_t>("mode")
      .template Attr<uint8_t>("uplo");
}

// --- General ---

// Expands the conjugate eigenvectors of a real matrix, which LAPACK packs into two real columns.
template <typename T>
void Unpack(int n, const T* imaginary, const T* packed, std::complex<T>* out) {
  for (int j = 0; j < n; ++j) {
    const T* re = packed + int64_t{j} * n;
    std::complex<T>* column = out + int64_t{j} * n;
    if (imaginary[j] == T(0) || std::isnan(imaginary[j]) || j + 1 == n) {
      for (int i = 0; i < n; ++i) column[i] = re[i];
      continue;
    }
    const T* im = re + n;
    for (int i = 0; i < n; ++i) {
      column[i] = {re[i], im[i]};
      column[n + i] = {re[i], -im[i]};
    }
    ++j;
  }
}

template <typename T>
int CallGeev(char left, char right, int n, T* a, T* wr, T* wi, T* vl, T* vr, T* work, int lwork) {
  const int ld = std::max(1, n);
  int info = 0;
  Lapack<T>::geev(&left, &right, &n, a, &ld, wr, wi, vl, &ld, vr, &ld, work, &lwork, &info, 1, 1);
  return info;
}

template <typename T>
ffi::Error GeevReal(In<T> a, Out<T> wr, Out<T> wi, Out<Complex<T>> vl, Out<Complex<T>> vr, Info info, uint8_t left,
                    uint8_t right) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  const int n = matrix.rows;
  const auto copy = Scratch<T>(matrix.size()), l = Scratch<T>(matrix.size()), r = Scratch<T>(matrix.size());
  T size{};
  CallGeev<T>(left, right, n, nullptr, nullptr, nullptr, nullptr, nullptr, &size, -1);
  const int lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    const T* source = a.typed_data() + i * matrix.size();
    int& status = info->typed_data()[i];
    status = kNotFinite;
    if (!AllFinite(source, matrix.size())) continue;
    Seed(source, copy.get(), matrix.size());
    T* imaginary = wi->typed_data() + i * n;
    status = CallGeev<T>(left, right, n, copy.get(), wr->typed_data() + i * n, imaginary, l.get(), r.get(), work.get(), lwork);
    if (status == 0 && left == 'V') Unpack(n, imaginary, l.get(), vl->typed_data() + i * matrix.size());
    if (status == 0 && right == 'V') Unpack(n, imaginary, r.get(), vr->typed_data() + i * matrix.size());
  }
  return ffi::Error::Success();
}

template <typename T>
ffi::Error GeevComplex(In<T> a, Out<T> w, Out<T> vl, Out<T> vr, Info info, uint8_t left, uint8_t right) {
  PW_SPLIT(matrix, a.dimensions(), 2);
  const int n = matrix.rows, ld = matrix.lead();
  const char left_c = left, right_c = right;
  const auto copy = Scratch<T>(matrix.size());
  const auto rwork = Scratch<Real<T>>(2 * int64_t{n});
  int ignored = 0, lwork = -1;
  T size{};
  Lapack<T>::geev(&left_c, &right_c, &n, nullptr, &ld, nullptr, nullptr, &ld, nullptr, &ld, &size, &lwork, rwork.get(), &ignored,
                  1, 1);
  lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    const T* source = a.typed_data() + i * matrix.size();
    int& status = info->typed_data()[i];
    status = kNotFinite;
    if (!AllFinite(source, matrix.size())) continue;
    Seed(source, copy.get(), matrix.size());
    Lapack<T>::geev(&left_c, &right_c, &n, copy.get(), &ld, w->typed_data() + i * n, vl->typed_data() + i * matrix.size(), &ld,
                    vr->typed_data() + i * matrix.size(), &ld, work.get(), &lwork, rwork.get(), &status, 1, 1);
  }
  return ffi::Error::Success();
}

template <typename T>
auto GeevRealBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<Complex<T>>>()
      .template Ret<In<Complex<T>>>()
      .template Ret<IntIn>()
      .template Attr<uint8_t>("compute_left")
      .template Attr<uint8_t>("compute_right");
}

template <typename T>
auto GeevComplexBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<IntIn>()
      .template Attr<uint8_t>("compute_left")
      .template Attr<uint8_t>("compute_right");
}

// --- Schur ---

// The outputs of one matrix of a batch; `wi` is null for complex matrices.
template <typename T>
struct SchurOutputs {
  T* form;
  T* vectors;
  T* wr;
  T* wi;
  int* selected;
};

template <typename T>
int CallGees(char mode, int n, const SchurOutputs<T>& out, T* work, int lwork, Real<T>* rwork) {
  const char sort = 'N';
  const int ld = std::max(1, n);
  int info = 0, selected = 0;
  if constexpr (kIsComplex<T>) {
    Lapack<T>::gees(&mode, &sort, nullptr, &n, out.form, &ld, &selected, out.wr, out.vectors, &ld, work, &lwork, rwork, nullptr,
                    &info, 1, 1);
  } else {
    Lapack<T>::gees(&mode, &sort, nullptr, &n, out.form, &ld, &selected, out.wr, out.wi, out.vectors, &ld, work, &lwork, nullptr,
                    &info, 1, 1);
  }
  if (out.selected != nullptr) *out.selected = selected;
  return info;
}

template <typename T>
ffi::Error Schur(const In<T>& a, SchurOutputs<T> first, int* info, uint8_t mode, uint8_t sort) {
  if (sort != 'N') return Refuse("Schur decomposition: sorting eigenvalues is not supported");
  PW_SPLIT(matrix, a.dimensions(), 2);
  const int n = matrix.rows;
  Seed(a.typed_data(), first.form, matrix.count * matrix.size());
  const auto rwork = Scratch<Real<T>>(n);
  T size{};
  CallGees<T>(mode, n, {}, &size, -1, rwork.get());
  const int lwork = WorkSize(size);
  const auto work = Scratch<T>(lwork);
  for (int64_t i = 0; i < matrix.count; ++i) {
    const SchurOutputs<T> out{first.form + i * matrix.size(), first.vectors + i * matrix.size(), first.wr + i * n,
                              first.wi == nullptr ? nullptr : first.wi + i * n, first.selected + i};
    *out.selected = 0;
    info[i] = AllFinite(out.form, matrix.size()) ? CallGees<T>(mode, n, out, work.get(), lwork, rwork.get()) : kNotFinite;
  }
  return ffi::Error::Success();
}

template <typename T>
ffi::Error GeesReal(In<T> a, Out<T> form, Out<T> vectors, Out<T> wr, Out<T> wi, Info selected, Info info, uint8_t mode,
                    uint8_t sort) {
  return Schur<T>(a, {form->typed_data(), vectors->typed_data(), wr->typed_data(), wi->typed_data(), selected->typed_data()},
                  info->typed_data(), mode, sort);
}

template <typename T>
ffi::Error GeesComplex(In<T> a, Out<T> form, Out<T> vectors, Out<T> w, Info selected, Info info, uint8_t mode, uint8_t sort) {
  return Schur<T>(a, {form->typed_data(), vectors->typed_data(), w->typed_data(), nullptr, selected->typed_data()},
                  info->typed_data(), mode, sort);
}

template <typename T>
auto GeesRealBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<IntIn>()
      .template Ret<IntIn>()
      .template Attr<uint8_t>("mode")
      .template Attr<uint8_t>("sort");
}

template <typename T>
auto GeesComplexBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<IntIn>()
      .template Ret<IntIn>()
      .template Attr<uint8_t>("mode")
      .template Attr<uint8_t>("sort");
}

}  // namespace

absl::Status RegisterSpectral() {
  PW_REGISTER_FOUR(EvdBinding, Evd, "syevd", "heevd");
  PW_REGISTER_TWO(GeevRealBinding, GeevReal, float, "lapack_sgeev_ffi", double, "lapack_dgeev_ffi");
  PW_REGISTER_TWO(GeevComplexBinding, GeevComplex, std::complex<float>, "lapack_cgeev_ffi", std::complex<double>,
                  "lapack_zgeev_ffi");
  PW_REGISTER_TWO(GeesRealBinding, GeesReal, float, "lapack_sgees_ffi", double, "lapack_dgees_ffi");
  PW_REGISTER_TWO(GeesComplexBinding, GeesComplex, std::complex<float>, "lapack_cgees_ffi", std::complex<double>,
                  "lapack_zgees_ffi");
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
