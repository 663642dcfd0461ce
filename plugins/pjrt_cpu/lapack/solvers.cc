// Solvers for triangular and tridiagonal systems.
#include <vector>

#include "plugins/pjrt_cpu/lapack/handler.h"

namespace pw::pjrt_cpu {
namespace {

template <typename T>
ffi::Error Trsm(In<T> a, In<T> b, Out<T> x, uint8_t side, uint8_t uplo, uint8_t trans, uint8_t diag) {
  PW_SPLIT(triangle, a.dimensions(), 2);
  PW_SPLIT(right, b.dimensions(), 2);
  const char side_c = side, uplo_c = uplo, trans_c = trans, diag_c = diag;
  if (triangle.rows != (side_c == 'L' ? right.rows : right.columns) || triangle.count != right.count) {
    return Refuse("triangular solve: the shapes of the triangle and of the right-hand side do not match");
  }
  T* out = x->typed_data();
  Seed(b.typed_data(), out, right.count * right.size());
  if (right.size() == 0) return ffi::Error::Success();
  const T one(1);
  const int lda = triangle.lead(), ldb = right.lead();
  for (int64_t i = 0; i < right.count; ++i) {
    Lapack<T>::trsm(&side_c, &uplo_c, &trans_c, &diag_c, &right.rows, &right.columns, &one, a.typed_data() + i * triangle.size(),
                    &lda, out + i * right.size(), &ldb, 1, 1, 1, 1);
  }
  return ffi::Error::Success();
}

template <typename T>
auto TrsmBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Arg<In<T>>()
      .template Ret<In<T>>()
      .template Attr<uint8_t>("side")
      .template Attr<uint8_t>("uplo")
      .template Attr<uint8_t>("trans_x")
      .template Attr<uint8_t>("diag");
}

template <typename T>
ffi::Error Gtsv(In<T> dl, In<T> d, In<T> du, In<T> b, Out<T> dl_out, Out<T> d_out, Out<T> du_out, Out<T> x, Info info) {
  PW_SPLIT(right, b.dimensions(), 2);
  const int64_t n = right.rows;
  Seed(dl.typed_data(), dl_out->typed_data(), right.count * n);
  Seed(d.typed_data(), d_out->typed_data(), right.count * n);
  Seed(du.typed_data(), du_out->typed_data(), right.count * n);
  Seed(b.typed_data(), x->typed_data(), right.count * right.size());
  const int ldb = right.lead();
  for (int64_t i = 0; i < right.count; ++i) {
    // The lower diagonal starts at its second entry: the first has no matrix element.
    Lapack<T>::gtsv(&right.rows, &right.columns, dl_out->typed_data() + i * n + 1, d_out->typed_data() + i * n,
                    du_out->typed_data() + i * n, x->typed_data() + i * right.size(), &ldb, info->typed_data() + i);
  }
  return ffi::Error::Success();
}

template <typename T>
auto GtsvBinding() {
  return ffi::Ffi::Bind()
      .Arg<In<T>>()
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Arg<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<In<T>>()
      .template Ret<ffi::Buffer<ffi::S32>>();
}

// A tridiagonal system, solved by elimination with row exchanges. A pivot negligible against the matrix's size is replaced by the smallest
// one that still gives finite results, as inverse iteration needs for a shifted, singular matrix.
template <typename T>
class PerturbedSystem {
 public:
  PerturbedSystem(const T* dl, const T* d, const T* du, int n) : n_(n), lower_(n), diagonal_(d, d + n), upper_(n), second_(n) {
    Real<T> norm = 0;
    for (int i = 0; i < n; ++i) {
      if (i > 0) lower_[i] = dl[i];
      if (i + 1 < n) upper_[i] = du[i];
      norm = std::max({norm, std::abs(lower_[i]), std::abs(diagonal_[i]), std::abs(upper_[i])});
    }
    smallest_ = std::max(norm * std::numeric_limits<Real<T>>::epsilon(), std::numeric_limits<Real<T>>::min());
    Factor();
  }

  void Solve(T* x) const {
    for (int i = 0; i + 1 < n_; ++i) {
      if (exchanged_[i]) std::swap(x[i], x[i + 1]);
      x[i + 1] -= factor_[i] * x[i];
    }
    for (int i = n_ - 1; i >= 0; --i) {
      T rest = x[i];
      if (i + 1 < n_) rest -= upper_[i] * x[i + 1];
      if (i + 2 < n_) rest -= second_[i] * x[i + 2];
      x[i] = rest / Pivot(diagonal_[i]);
    }
  }

 private:
  void Factor() {
    factor_.assign(n_, T(0));
    exchanged_.assign(n_, false);
    for (int i = 0; i + 1 < n_; ++i) {
      if (std::abs(lower_[i + 1]) > std::abs(diagonal_[i])) {
        exchanged_[i] = true;
        std::swap(diagonal_[i], lower_[i + 1]);
        std::swap(upper_[i], diagonal_[i + 1]);
        if (i + 2 < n_) std::swap(second_[i], upper_[i + 1]);
      }
      factor_[i] = lower_[i + 1] / Pivot(diagonal_[i]);
      diagonal_[i + 1] -= factor_[i] * upper_[i];
      if (i + 2 < n_) upper_[i + 1] -= factor_[i] * second_[i];
    }
  }

  T Pivot(T pivot) const {
    if (!(std::abs(pivot) < smallest_)) return pivot;
    return std::real(pivot) < 0 ? T(-smallest_) : T(smallest_);
  }

  const int n_;
  std::vector<T> lower_, diagonal_, upper_, second_, factor_;
  std::vector<bool> exchanged_;
  Real<T> smallest_ = 0;
};

template <typename T>
void SolvePerturbed(const ffi::AnyBuffer& dl, const ffi::AnyBuffer& d, const ffi::AnyBuffer& du, const Batch& right, T* x) {
  const int64_t n = right.rows;
  for (int64_t i = 0; i < right.count; ++i) {
    const PerturbedSystem<T> system(static_cast<const T*>(dl.untyped_data()) + i * n,
                                    static_cast<const T*>(d.untyped_data()) + i * n,
                                    static_cast<const T*>(du.untyped_data()) + i * n, right.rows);
    for (int c = 0; c < right.columns; ++c) system.Solve(x + i * right.size() + int64_t{c} * n);
  }
}

ffi::Error Perturbed(ffi::AnyBuffer dl, ffi::AnyBuffer d, ffi::AnyBuffer du, ffi::AnyBuffer b, ffi::Result<ffi::AnyBuffer> x) {
  PW_SPLIT(right, b.dimensions(), 2);
  if (x->untyped_data() != b.untyped_data()) std::memcpy(x->untyped_data(), b.untyped_data(), b.size_bytes());
  switch (b.element_type()) {
    case ffi::F32:
      SolvePerturbed(dl, d, du, right, static_cast<float*>(x->untyped_data()));
      return ffi::Error::Success();
    case ffi::F64:
      SolvePerturbed(dl, d, du, right, static_cast<double*>(x->untyped_data()));
      return ffi::Error::Success();
    case ffi::C64:
      SolvePerturbed(dl, d, du, right, static_cast<std::complex<float>*>(x->untyped_data()));
      return ffi::Error::Success();
    case ffi::C128:
      SolvePerturbed(dl, d, du, right, static_cast<std::complex<double>*>(x->untyped_data()));
      return ffi::Error::Success();
    default:
      return Refuse("tridiagonal solve: the element type must be f32, f64, c64 or c128");
  }
}

}  // namespace

absl::Status RegisterSolvers() {
  PW_REGISTER_FOUR(TrsmBinding, Trsm, "trsm", "trsm");
  PW_REGISTER_FOUR(GtsvBinding, Gtsv, "gtsv", "gtsv");
  XLA_FFI_DEFINE_HANDLER(perturbed, Perturbed,
                         ffi::Ffi::Bind()
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::AnyBuffer>()
                             .Ret<ffi::AnyBuffer>());
  return RegisterFfiHandler("tridiagonal_solve_perturbed_ffi", perturbed);
}

}  // namespace pw::pjrt_cpu
