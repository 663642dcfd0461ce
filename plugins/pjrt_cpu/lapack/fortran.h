// LAPACK and BLAS for C++: one struct per element type, one function pointer per routine.
//
// Fortran passes everything by address and appends the length of every character argument; all integers are 32 bits wide.
#pragma once

#include <complex>
#include <cstddef>
#include <type_traits>

namespace pw::pjrt_cpu {

template <typename T>
struct RealOf {
  using type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <typename T>
using Real = typename RealOf<T>::type;
template <typename T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

}  // namespace pw::pjrt_cpu

// Routines with the same arguments for all four types. `q` is "or" or "un" and `y` is "sy" or "he", the parts of the names that differ.
#define PW_LAPACK_COMMON(p, q, y, T, R)                                                                                      \
  void p##potrf_(const char*, const int* n, T* a, const int* lda, int* info, size_t);                                        \
  void p##getrf_(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info);                                  \
  void p##gtsv_(const int* n, const int* columns, T* dl, T* d, T* du, T* b, const int* ldb, int* info);                      \
  void p##trsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m, const int* n,         \
                const T* alpha, const T* a, const int* lda, T* b, const int* ldb, size_t, size_t, size_t, size_t);           \
  void p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work, const int* lwork, int* info);            \
  void p##q##gqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau, T* work, const int* lwork,   \
                  int* info);                                                                                                \
  void p##q##mqr_(const char* side, const char* trans, const int* m, const int* n, const int* k, const T* a, const int* lda, \
                  const T* tau, T* c, const int* ldc, T* work, const int* lwork, int* info, size_t, size_t);                 \
  void p##gehrd_(const int* n, const int* low, const int* high, T* a, const int* lda, T* tau, T* work, const int* lwork,     \
                 int* info);                                                                                                 \
  void p##y##trd_(const char* uplo, const int* n, T* a, const int* lda, R* d, R* e, T* tau, T* work, const int* lwork,       \
                  int* info, size_t);

#define PW_LAPACK_REAL(p, T)                                                                                                   \
  void p##geqp3_(const int* m, const int* n, T* a, const int* lda, int* jpvt, T* tau, T* work, const int* lwork, int* info);   \
  void p##gesdd_(const char* job, const int* m, const int* n, T* a, const int* lda, T* s, T* u, const int* ldu, T* vt,         \
                 const int* ldvt, T* work, const int* lwork, int* iwork, int* info, size_t);                                   \
  void p##gesvd_(const char* jobu, const char* jobvt, const int* m, const int* n, T* a, const int* lda, T* s, T* u,            \
                 const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* info, size_t, size_t);                \
  void p##syevd_(const char* job, const char* uplo, const int* n, T* a, const int* lda, T* w, T* work, const int* lwork,       \
                 int* iwork, const int* liwork, int* info, size_t, size_t);                                                    \
  void p##geev_(const char* left, const char* right, const int* n, T* a, const int* lda, T* wr, T* wi, T* vl, const int* ldvl, \
                T* vr, const int* ldvr, T* work, const int* lwork, int* info, size_t, size_t);                                 \
  void p##gees_(const char* job, const char* sort, void* select, const int* n, T* a, const int* lda, int* sdim, T* wr, T* wi,  \
                T* vs, const int* ldvs, T* work, const int* lwork, int* bwork, int* info, size_t, size_t);

#define PW_LAPACK_COMPLEX(p, T, R)                                                                                            \
  void p##geqp3_(const int* m, const int* n, T* a, const int* lda, int* jpvt, T* tau, T* work, const int* lwork, R* rwork,    \
                 int* info);                                                                                                  \
  void p##gesdd_(const char* job, const int* m, const int* n, T* a, const int* lda, R* s, T* u, const int* ldu, T* vt,        \
                 const int* ldvt, T* work, const int* lwork, R* rwork, int* iwork, int* info, size_t);                        \
  void p##gesvd_(const char* jobu, const char* jobvt, const int* m, const int* n, T* a, const int* lda, R* s, T* u,           \
                 const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, R* rwork, int* info, size_t, size_t);     \
  void p##heevd_(const char* job, const char* uplo, const int* n, T* a, const int* lda, R* w, T* work, const int* lwork,      \
                 R* rwork, const int* lrwork, int* iwork, const int* liwork, int* info, size_t, size_t);                      \
  void p##geev_(const char* left, const char* right, const int* n, T* a, const int* lda, T* w, T* vl, const int* ldvl, T* vr, \
                const int* ldvr, T* work, const int* lwork, R* rwork, int* info, size_t, size_t);                             \
  void p##gees_(const char* job, const char* sort, void* select, const int* n, T* a, const int* lda, int* sdim, T* w, T* vs,  \
                const int* ldvs, T* work, const int* lwork, R* rwork, int* bwork, int* info, size_t, size_t);

extern "C" {
PW_LAPACK_COMMON(s, or, sy, float, float)
PW_LAPACK_COMMON(d, or, sy, double, double)
PW_LAPACK_COMMON(c, un, he, std::complex<float>, float)
PW_LAPACK_COMMON(z, un, he, std::complex<double>, double)
PW_LAPACK_REAL(s, float)
PW_LAPACK_REAL(d, double)
PW_LAPACK_COMPLEX(c, std::complex<float>, float)
PW_LAPACK_COMPLEX(z, std::complex<double>, double)
}

namespace pw::pjrt_cpu {

template <typename T>
struct Lapack;

#define PW_LAPACK_TABLE(p, q, y, T)                    \
  template <>                                          \
  struct Lapack<T> {                                   \
    static constexpr auto potrf = p##potrf_;           \
    static constexpr auto getrf = p##getrf_;           \
    static constexpr auto gtsv = p##gtsv_;             \
    static constexpr auto trsm = p##trsm_;             \
    static constexpr auto geqrf = p##geqrf_;           \
    static constexpr auto geqp3 = p##geqp3_;           \
    static constexpr auto make_q = p##q##gqr_;         \
    static constexpr auto apply_q = p##q##mqr_;        \
    static constexpr auto gehrd = p##gehrd_;           \
    static constexpr auto tridiagonalize = p##y##trd_; \
    static constexpr auto gesdd = p##gesdd_;           \
    static constexpr auto gesvd = p##gesvd_;           \
    static constexpr auto evd = p##y##evd_;            \
    static constexpr auto geev = p##geev_;             \
    static constexpr auto gees = p##gees_;             \
  };

PW_LAPACK_TABLE(s, or, sy, float)
PW_LAPACK_TABLE(d, or, sy, double)
PW_LAPACK_TABLE(c, un, he, std::complex<float>)
PW_LAPACK_TABLE(z, un, he, std::complex<double>)

}  // namespace pw::pjrt_cpu
