// What tests of this folder share.
#pragma once

#include "pathways/resource/placement.h"

namespace pw::resource {

// Any `n` devices.
inline SliceRequest Count(int n, bool exclusive = false) {
  SliceRequest request;
  request.count = n;
  request.exclusive = exclusive;
  return request;
}

}  // namespace pw::resource
