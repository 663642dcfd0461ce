// RestoredSlices: the virtual devices and slices of a session of the controller before, as its client tells them (session.proto, Controllers that
// return).
#pragma once

#include <string>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/resource/placement.h"
#include "pathways/session/reports.h"

namespace pw::session {

struct RestoredSlices {
  struct Kind {
    std::string kind;
    int32_t count = 0;
  };
  struct Slice {
    resource::SliceRequest request;
    SliceState state;
    bool leaves = false;  // a request that is not settled releases it
  };
  struct Released {
    DeviceId device;
    DeviceId physical;  // to which it was bound
  };

  DeviceId first;           // of the virtual devices: those of each kind in turn
  std::vector<Kind> kinds;  // empty: the session has no virtual devices
  std::vector<Slice> slices;
  std::vector<Released> released;  // devices of slices that were released
  SliceId last;                    // the greatest number of a slice that the client has had
};

}  // namespace pw::session
