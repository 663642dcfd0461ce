// SessionSlices: the virtual devices and slices of a session, so that another controller can restore them (session.proto, RestoredSlices). RemoteSession
// has one. A released slice is remembered until all requests before that are settled: those may use its devices.
//
// Pure. Strand-confined.
#pragma once

#include <cstdint>
#include <map>

#include "pathways/base/ids.h"
#include "pathways/client/kept_requests.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

class SessionSlices {
 public:
  using SliceReport = ::pathways::v1::SliceReport;

  // The session is open, with these virtual devices.
  void SetDevices(const session::SpareDevices& spares);
  // The controller has answered a request to add a slice.
  void Add(const ::pathways::v1::AddSlice& asked, const SliceReport& report);
  // The slice has another state. Ignores one that the session does not have.
  void Update(const SliceReport& report);
  void Release(SliceId slice, uint64_t request);
  // All requests up to this one are settled.
  void OnSettled(uint64_t up_to);

  // Writes the state before the requests that are not settled, and into `last` what settled ones have released since.
  void Write(const KeptRequests& kept, ::pathways::v1::RestoredSlices* slices, ::pathways::v1::Restore* last) const;
  size_t size() const { return slices_.size(); }

 private:
  struct Slice {
    ::pathways::v1::AddSlice asked;
    SliceReport report;
    uint64_t released_by = 0;  // a request; 0: none
  };
  void Forget(std::map<SliceId, Slice>::iterator slice);

  ::pathways::v1::RestoredSlices devices_;  // only its devices
  std::map<SliceId, Slice> slices_;
  std::map<int32_t, int32_t> released_;  // devices of slices that were released, and the physical ones of each
  uint64_t last_ = 0;                    // the greatest number of a slice
};

}  // namespace pw::client
