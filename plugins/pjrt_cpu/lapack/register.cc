// Registers all handlers, and defines the symbols that the static LAPACK expects.
#include "plugins/pjrt_cpu/lapack/handler.h"
#include "plugins/pjrt_cpu/status.h"

extern "C" {

// OpenBLAS starts its own threads when loaded. They are stopped: XLA's threads, one for each call, suffice.
void openblas_set_num_threads(int threads);
int blas_thread_shutdown_();

// Called by LAPACK for a bad argument. The usual xerbla_ ends the process. With this one, the routine returns the argument's
// number in `info`, which every caller checks.
void xerbla_(const char*, const int*, size_t) {}

// The only routine of the Fortran run-time library that LAPACK needs: concatenates two strings into a blank-padded third.
void _gfortran_concat_string(size_t size, char* out, size_t left_size, const char* left, size_t right_size, const char* right) {
  const size_t from_left = std::min(size, left_size);
  std::memcpy(out, left, from_left);
  const size_t from_right = std::min(size - from_left, right_size);
  std::memcpy(out + from_left, right, from_right);
  std::memset(out + from_left + from_right, ' ', size - from_left - from_right);
}

}  // extern "C"

namespace pw::pjrt_cpu {

absl::Status RegisterHandlers() {
  openblas_set_num_threads(1);
  blas_thread_shutdown_();
  for (const auto& family : {RegisterSolvers, RegisterFactorizations, RegisterSpectral, RegisterSvd, RegisterSparse}) {
    if (absl::Status status = family(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
