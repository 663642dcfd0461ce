// Zeros: as many as anybody wants, of pages that exist once.
#pragma once

#include <cstddef>
#include <mutex>

#include "pathways/base/bytes.h"

namespace pw::device {

class Zeros {
 public:
  // Read-only, on a 64-byte boundary. Empty if the address space has no room for it. Any thread.
  Bytes Take(size_t size);

 private:
  std::mutex mu_;
  Bytes largest_;  // guarded by mu_
};

}  // namespace pw::device
