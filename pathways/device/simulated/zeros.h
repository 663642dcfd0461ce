// Zeros: hands out any number of zero bytes; all are views of pages that exist once.
#pragma once

#include <cstddef>
#include <mutex>

#include "pathways/base/memory/bytes.h"

namespace pw::device {

class Zeros {
 public:
  // Returns zeros, read-only, 64-byte aligned. Empty if the address space has no room. Any thread.
  Bytes Take(size_t size);

 private:
  std::mutex mu_;
  Bytes largest_;  // guarded by mu_
};

}  // namespace pw::device
