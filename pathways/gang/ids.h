// Ids of the gang scheduler. A gang is one computation on a set of devices that must all launch it.
//   GangId   one per gang, in the order of submission; never reused
//   LaneId   one per distinct set of an island's devices that gangs run on; dense
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
using ClientId = SessionId;  // the session that submits gangs

}  // namespace pw::gang
