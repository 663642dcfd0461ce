// What a process that passes large messages on asks of the C library's allocator. Called once, early, by such a process's server.
#pragma once

#include <malloc.h>

namespace pw {

// Messages of a megabyte come and go by the thousand. By default each is memory fresh from the kernel, which costs hundreds of page faults
// a message and more than its copies; so what they leave behind is kept, up to 64 MiB a thread that receives.
inline void KeepMemoryOfLargeMessages() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace pw
