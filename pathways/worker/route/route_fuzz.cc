// Fuzzes the tuples of routes from another host, and the configs of receivers.
#include "pathways/worker/route/try_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pw::worker::TryRows(data, size);
  return 0;
}
