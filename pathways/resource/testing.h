// Test helpers of this folder.
#pragma once

#include "pathways/resource/placement.h"

namespace pw::resource {

// Returns a request for any `n` devices.
inline SliceRequest Count(int n, bool exclusive = false) {
  SliceRequest request;
  request.count = n;
  request.exclusive = exclusive;
  return request;
}

}  // namespace pw::resource
