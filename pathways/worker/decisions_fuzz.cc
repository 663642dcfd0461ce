// Fuzzes what other hosts tell about loops and choices.
#include "pathways/worker/testing_decisions.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pw::worker::TryDecisions(data, size);
  return 0;
}
