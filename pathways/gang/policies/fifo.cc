#include "pathways/gang/policies/fifo.h"

namespace pw::gang {

int64_t Fifo::GangRank(uint64_t sequence, int64_t) const { return static_cast<int64_t>(sequence); }

}  // namespace pw::gang
