// Names of the gang scheduler.
//   GangId   one for each computation submitted, in the order of submission; never reused
//   LaneId   one for each distinct set of devices of an island that computations run on; dense
#pragma once

#include "pathways/base/ids.h"

namespace pw::gang {

struct GangIdTag {
  static constexpr const char* kName = "gang";
};
struct LaneIdTag {
  static constexpr const char* kName = "lane";
};

using GangId = Id<GangIdTag>;
using LaneId = Id<LaneIdTag, uint32_t>;
using ClientId = SessionId;  // whose work it is

}  // namespace pw::gang
