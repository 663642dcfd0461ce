// Requests of a session about arrays in files (session.h, SaveArrays and LoadArrays).
#pragma once

#include <string>
#include <vector>

#include "pathways/buffers/array_spec.h"
#include "pathways/session/basics.h"

namespace pw::session {

// Arrays in files, each in a folder of its own below `location` (proto/pathways/v1/session.proto, SaveArrays).
struct SaveRequest {
  struct Array {
    std::string name;
    Handle array = 0;
  };
  std::string location;
  std::vector<Array> arrays;
};

struct LoadRequest {
  struct Array {
    std::string name;
    Handle result = 0;
    buffers::ArraySpec spec;
  };
  std::string location;
  std::vector<Array> arrays;
};

}  // namespace pw::session
