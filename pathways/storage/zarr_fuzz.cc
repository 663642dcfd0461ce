// Fuzzes the descriptions of arrays in files, which clients may have written. An accepted description has sizes that do not
// overflow, and is the same after it has been written and parsed again.
#include <cstdint>
#include <string>

#include "pathways/base/log.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/storage/zarr.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pw;  // NOLINT: one function
  const auto array = storage::ParseZarrMetadata({reinterpret_cast<const char*>(data), size});
  if (!array.ok()) return 0;
  PW_CHECK(array->chunks.size() == array->dims.size());
  PW_CHECK(buffers::DenseBytes(array->dtype, array->dims).ok());
  PW_CHECK(buffers::DenseBytes(array->dtype, array->chunks).ok());
  const auto written = storage::ZarrMetadata(*array);
  PW_CHECK(written.ok());
  const auto again = storage::ParseZarrMetadata(*written);
  PW_CHECK(again.ok());
  PW_CHECK(again->dtype == array->dtype && again->dims == array->dims && again->chunks == array->chunks);
  return 0;
}
